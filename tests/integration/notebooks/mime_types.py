# %% image/png
import base64
from IPython.display import *
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Image(data=PIXEL, width=20)
# %% image/jpeg
import io
import PIL.Image
jpeg = io.BytesIO()
PIL.Image.new("RGB", (4, 4), "red").save(jpeg, "JPEG")
display(Image(data=jpeg.getvalue(), format="jpeg"))
# %% image/gif
gif = io.BytesIO()
PIL.Image.new("P", (4, 4)).save(gif, "GIF")
Image(data=gif.getvalue(), format="gif")
# %% image/svg+xml
SVG(data='<svg xmlns="http://www.w3.org/2000/svg" width="2" height="2"><circle r="1"/></svg>')
# %% text/html
HTML("<b>é</b><script>1 < 2</script>")
# %% text/markdown
Markdown("# heading\n\n* *item*")
# %% text/latex
Latex(r"\begin{equation} x = \frac{1}{2} \end{equation}")
# %% text/latex
Math(r"\sqrt{2}")
# %% application/json
JSON({"a": [1, 2.5, None, True], "é": {"deep": []}})
# %% application/javascript
Javascript("element.append('x')")
# %% application/pdf
display({"application/pdf": base64.b64encode(b"%PDF-1.4\n").decode()}, raw=True)
# %% application/geo+json
GeoJSON({"type": "Point", "coordinates": [1, 2]})
# %% text/html
Audio(data=b"RIFF" + bytes(40), rate=8000)
# %% text/html
FileLink("/opt/husk/image.json")
# %% text/html text/markdown text/plain
display(HTML("<p>"), Markdown("*"), "text")
# %% image/png+text/html
display({"image/png": base64.b64encode(PIXEL).decode(), "text/html": "<img>", "text/plain": "both"}, raw=True)
# %% text/plain
Code("x = 1") and print
# %% text/html
ProgressBar(3)
