"""Chinese, Japanese and Korean text in figures, whatever fonts the code asks for.

The image's matplotlibrc already names a font for these scripts, but much code replaces that setting:
seaborn's themes go back to Latin fonts, and many a snippet asks for a font of Windows or macOS by
name. So this module, which inside.sh installs as husk_fonts and which the image's copy of matplotlib
calls as its last act when it loads fonts, adds the same font in two more ways:

- as the last resort for any glyph that the chosen fonts lack,
- under the names of the fonts that such snippets ask for.
"""

import dataclasses

FONT = "WenQuanYi Micro Hei"

KNOWN_AS = (
    # Chinese
    "SimHei", "SimSun", "Microsoft YaHei", "Microsoft JhengHei", "KaiTi", "FangSong", "STHeiti", "STSong",
    "STKaiti", "Heiti SC", "Heiti TC", "PingFang SC", "PingFang TC", "Hiragino Sans GB", "Songti SC",
    "WenQuanYi Zen Hei", "Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans SC", "Noto Serif CJK SC",
    "Source Han Sans SC", "Source Han Sans CN", "Arial Unicode MS",
    # Japanese
    "MS Gothic", "Yu Gothic", "Meiryo", "Hiragino Sans", "IPAexGothic", "TakaoGothic", "Noto Sans CJK JP",
    "Noto Sans JP",
    # Korean
    "Malgun Gothic", "AppleGothic", "NanumGothic", "Noto Sans CJK KR", "Noto Sans KR",
)  # fmt: skip


def extend(manager):
    """Teach a matplotlib FontManager, and every one made after it, about FONT."""
    entries = [entry for entry in manager.ttflist if entry.name == FONT]
    if not entries:
        return
    known = {entry.name for entry in manager.ttflist}
    manager.ttflist += [dataclasses.replace(entries[0], name=name) for name in KNOWN_AS if name not in known]

    cls = type(manager)
    find = cls._find_fonts_by_props

    def find_and_fall_back(self, *args, **kwargs):
        paths = find(self, *args, **kwargs)
        if kwargs.get("fontext", "ttf") == "ttf":
            last_resort = self.findfont(FONT)
            if last_resort not in paths:
                paths.append(last_resort)
        return paths

    cls._find_fonts_by_props = find_and_fall_back
