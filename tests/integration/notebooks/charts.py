# %% application/vnd.plotly.v1+json
import plotly.graph_objects as go
go.Figure(go.Scatter(x=[1, 2, 3], y=[2, 1, 3]), layout={"title": "é"})
# %% application/vnd.plotly.v1+json stdout
import plotly.express as px
px.bar(x=["a", "b"], y=[1, 2]).show()
print("shown")
# %% application/vnd.vegalite
import altair as alt
import pandas as pd
chart = alt.Chart(pd.DataFrame({"x": [1, 2], "y": [3, 4]})).mark_point().encode(x="x", y="y")
chart
# %% application/vnd.vegalite
(chart + chart.mark_line()).properties(title="two layers").display()
