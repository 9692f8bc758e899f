# %% text/html
import pandas as pd

table = pd.DataFrame({"name": ["Ann", "Bo", "é<&>"], "n": [1, 2.5, None], "when": pd.Timestamp("2026-01-02")})
table
# %% text/plain
table["n"]
# %% stdout text/html text/html
print(table.describe())
display(table.head(1), table.tail(1))
# %% text/html
pd.DataFrame(range(500))
# %% text/html
table.style.set_uuid("fixed").highlight_max(subset=["n"])
# %% image/png+text/latex
import sympy
x = sympy.Symbol("x")
sympy.init_printing()
sympy.Integral(sympy.exp(-x**2), (x, -sympy.oo, sympy.oo))
# %% text/latex
sympy.Matrix([[1, x], [x**2, sympy.sqrt(x)]])
# %% text/plain
{"a": [1, 2, (3, None)], "text": "ü\n"}
# %% text/plain
import numpy as np
np.arange(12).reshape(3, 4) / 7
