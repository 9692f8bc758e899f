# %% stdout
import sys
for step in range(5):
    sys.stdout.write(f"\r{step * 25}%")
    sys.stdout.flush()
print()
# %% stderr
from tqdm import tqdm
for _ in tqdm(range(3), ncols=60, desc="three"):
    pass
# %% application/vnd.jupyter.widget-view+json
from tqdm.notebook import tqdm as notebook_bar
for _ in notebook_bar(range(3), desc="three"):
    pass
# %% stdout
print("one", end="\r")
print("two\b\bx", "bell\a")
# %% application/vnd.jupyter.widget-view+json stdout
from tqdm.auto import tqdm as any_bar
with any_bar(total=2) as bar:
    bar.update(2)
print("done")
