# %% text/plain text/plain
first = display("old", display_id="one")
display("between")
first.update("new")
# %% text/plain
display("old", display_id="two")
from IPython.display import clear_output, update_display
update_display("new", display_id="two")
# %% stdout
print("gone")
display("gone")
clear_output()
print("stays")
# %% stdout text/plain
for step in range(3):
    clear_output(wait=True)
    print("step", step)
    display(step)
# %% text/plain text/plain
_ = display("same id", display_id="three")
_ = display("same id", display_id="three")
# %% text/html
class Rich:
    def _repr_html_(self):
        return "<i>rich</i>"

    def __repr__(self):
        return "plain"

Rich()
# %% text/x-own
display({"text/x-own": "own", "text/plain": "plain"}, raw=True, metadata={"text/x-own": {"width": 3}})
# %% text/html
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "<p>1</p>", "text/plain": "1"}, {"text/html": {"isolated": True}}

Bundle()
# %%
_ = "nothing to see";
# %%
"hidden by a semicolon";
# %%
None
# %% text/plain
"a", "b"
# %% text/plain
_
# %% text/html
from IPython.display import IFrame
IFrame("about:blank", 10, 10)
