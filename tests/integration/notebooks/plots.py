# %% image/png
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 6, 100)
plt.plot(x, np.sin(x), label="sin")
plt.legend()
_ = plt.title("正弦")
# %% image/png image/png image/png
for power in (1, 2, 3):
    plt.figure(figsize=(3, 2))
    plt.plot(x, x**power)
# %% stdout image/png
print("before the figure")
fig, axes = plt.subplots(1, 2, figsize=(6, 2))
axes[0].scatter([1, 2], [3, 4])
axes[1].imshow(np.arange(16).reshape(4, 4))
plt.show()
print("after the figure")
# %% image/svg+xml
%config InlineBackend.figure_formats = ["svg"]
plt.rcParams["svg.hashsalt"] = "same ids in every drawing"
plt.figure(figsize=(2, 1))
_ = plt.bar(["a", "b"], [1, 2])
# %% image/png
%config InlineBackend.figure_formats = ["retina"]
import seaborn
_ = seaborn.heatmap([[1, 2], [3, 4]], annot=True)
# %% image/jpeg+image/png
from PIL import Image
Image.new("RGB", (8, 8), "orange")
