"""plot.py: the ratios of bench.py as an SVG: a bar a line, with the spread of the rounds and the aim."""

from xml.sax.saxutils import escape

ROW, LABEL, WIDTH, TOP = 20, 300, 420, 40
MOST = 1.5  # Longer bars are cut, and end in an arrow.


def bars(results, report):
    shown = [result for result in results
             if result.get("ratio") is not None and "aim_ns" not in result]
    height = TOP + ROW * len(shown) + 30

    def x(ratio):
        return LABEL + WIDTH * min(ratio, MOST) / MOST

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="16">{escape(report["machine"])}, {escape(report["commit"])}, '
        f'{escape(report["date"])}: time as a part of the quickest peer\'s</text>',
    ]
    for row, result in enumerate(shown):
        y = TOP + ROW * row
        ratio = result["ratio"]
        threads = f', {result["threads"]} threads' if "threads" in result else ""
        colour = "#2a7f4f" if ratio <= result.get("aim", 1) else "#c9a227" if ratio <= 1 else "#b33"
        parts.append(f'<text x="8" y="{y + 13}">{escape(result["name"] + threads)}</text>')
        parts.append(f'<rect x="{LABEL}" y="{y + 3}" width="{x(ratio) - LABEL:.1f}" height="13" '
                     f'fill="{colour}"/>')
        if result.get("ratio_low") is not None:
            parts.append(f'<line x1="{x(result["ratio_low"]):.1f}" y1="{y + 9}" '
                         f'x2="{x(result["ratio_high"]):.1f}" y2="{y + 9}" stroke="black"/>')
        if "aim" in result:
            parts.append(f'<line x1="{x(result["aim"]):.1f}" y1="{y + 1}" '
                         f'x2="{x(result["aim"]):.1f}" y2="{y + 18}" stroke="black" '
                         'stroke-width="2"/>')
        arrow = " →" if ratio > MOST else ""
        parts.append(f'<text x="{x(ratio) + 6:.1f}" y="{y + 13}">{ratio:.2f}{arrow}</text>')
    parts.append(f'<line x1="{x(1):.1f}" y1="{TOP - 6}" x2="{x(1):.1f}" y2="{height - 24}" '
                 'stroke="#888" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{x(1) - 3:.1f}" y="{height - 10}">1</text></svg>\n')
    return "\n".join(parts)
