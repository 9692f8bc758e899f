# %% stdout error:ZeroDivisionError
def divide(a, b):
    return a / b

print("before")
divide(1, 0)
# %% error:SyntaxError
for
# %% error:IndentationError
if True:
x = 1
# %% error:NameError
undefined_name
# %% error:ValueError
try:
    {}["key"]
except KeyError as missing:
    raise ValueError("with a cause — é") from missing
# %% error:FileNotFoundError
raise OSError(2, "no such thing", "file")
# %% error:RecursionError
def deeper(n):
    return deeper(n + 1)

deeper(0)
# %% error:JSONDecodeError
import json
json.loads("{")
# %% error:AssertionError
assert 1 == 2, "not equal"
# %% error:KeyboardInterrupt
raise KeyboardInterrupt
# %% error:TypeError
error = TypeError("with notes")
error.add_note("the first note")
raise error
# %% stderr
raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
# %% stderr
%no_such_magic
# %% error:TypeError
class Unprintable:
    def __repr__(self):
        return 5

Unprintable()
# %% text/plain
"still works"
