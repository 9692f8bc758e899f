# %% stdout
%%time
total = sum(range(1000))
# %% stdout text/plain
%time 6 * 7
# %% stdout
%timeit -n 10 -r 2 sum(range(10))
# %% stdout
%%timeit -n 10 -r 2
sum(range(10))
# %% stdout stderr
%%bash
echo "to stdout"
echo "to stderr" >&2
# %% stdout
!echo "from the shell: $((6 * 7))"
# %% text/plain
lines = !printf 'a\nb\n'
lines
# %% stdout
value = 5
!echo {value} $value
# %% stdout
%%writefile written.txt
some text
# %% stdout
%cat written.txt
# %% stdout
%who_ls
%who
# %% text/html
%%html
<b>bold</b>
# %% text/markdown
%%markdown
**bold**
# %% text/latex
%%latex
$x^2$
# %% application/javascript
%%javascript
console.log(1)
# %% image/svg+xml
%%svg
<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>
# %% stdout
%%python
print("another interpreter")
# %%
%%capture captured
print("not shown")
# %% stdout
print(captured.stdout, end="")
# %% text/plain
%pwd
# %% stdout
%env GREETING=hello
!echo $GREETING
# %% stdout
open("script.py", "w").write("print('a script, as', __name__)");
%run script.py
