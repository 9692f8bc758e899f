# %% application/vnd.jupyter.widget-view+json
import ipywidgets as widgets
widgets.IntSlider(value=3, max=10, description="n")
# %% application/vnd.jupyter.widget-view+json
box = widgets.VBox([widgets.Button(description="go"), widgets.Text("é")])
display(box)
# %% text/plain
slider = widgets.FloatSlider()
slider.value = 0.5
slider.value
# %% application/vnd.jupyter.widget-view+json
widgets.interact(lambda n: None, n=3);
# %% application/vnd.jupyter.widget-view+json
widgets.Image(value=bytes(range(256)) * 40)
