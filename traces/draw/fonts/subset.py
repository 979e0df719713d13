"""Cuts the two fonts of the viewer out of DejaVu Sans.

    python3 subset.py FOLDER_WITH_DEJAVU_FONTS

needs fontTools. The family is renamed so that an installed DejaVu Sans is not
taken instead.
"""
import os
import sys

from fontTools import subset
from fontTools.ttLib import TTFont

UNICODES = [
    *range(0x20, 0x7F), *range(0xA0, 0x180),       # Latin
    0x394, 0x3A3, 0x3BC, 0x3C3,                    # Delta, Sigma, mu, sigma
    *range(0x2010, 0x2016), *range(0x2018, 0x201F), 0x2020, 0x2022, 0x2026, 0x202F, 0x2032,
    *range(0x2190, 0x219A), 0x21B5, 0x21BA, 0x21D0, 0x21D2, 0x21E7,  # arrows
    0x2206, 0x2211, 0x2212, 0x221E, 0x2248, 0x2260, 0x2264, 0x2265,
    0x2318, 0x25A0, 0x25A1, 0x25B2, 0x25B4, 0x25B6, 0x25B8, 0x25BC, 0x25BE, 0x25C0, 0x25C2,
    0x25C6, 0x25C7, 0x25CB, 0x25CF, 0x2713, 0x2715, 0x2717, 0x26A0, 0xFFFD,
]

for source, target, style in [("DejaVuSans.ttf", "regular.ttf", "Regular"),
                              ("DejaVuSans-Bold.ttf", "bold.ttf", "Bold")]:
    font = TTFont(os.path.join(sys.argv[1], source), recalcTimestamp=False)
    options = subset.Options()
    options.hinting = True
    options.layout_features = ["kern", "mark", "ccmp"]
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.notdef_outline = True
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=UNICODES)
    cutter.subset(font)
    for record in font["name"].names:
        text = {1: "Pipeview Sans", 2: style, 3: "Pipeview Sans " + style,
                4: "Pipeview Sans " + style, 6: "PipeviewSans-" + style}.get(record.nameID)
        if text:
            record.string = text
    font.save(os.path.join(os.path.dirname(os.path.abspath(__file__)), target))
