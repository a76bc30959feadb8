"""The leaderboard as one HTML page that needs nothing else: tables that sort, pictures inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from hwbench.leaderboard.build import Leaderboard, Table, shown

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;color:#222}
h1,h2{line-height:1.2}nav a{margin-right:1rem}
.wide{overflow:auto;max-height:34rem;border:1px solid #ccc}
table{border-collapse:collapse;font-size:13px;white-space:nowrap}
th,td{padding:.25rem .6rem;border-bottom:1px solid #e3e3e3;text-align:left}
th{position:sticky;top:0;background:#f2f2f2}
th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible{outline:2px solid #0072B2}
td.n{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:1.5rem 0}figure svg{max-width:100%;height:auto}
input{padding:.3rem;margin:.5rem 0;width:20rem}
"""

_SCRIPT = """
document.querySelectorAll('table').forEach(function(table){
  var body=table.tBodies[0];
  table.querySelectorAll('th button').forEach(function(button,i){
    button.addEventListener('click',function(){
      var down=button.dataset.down==='1';button.dataset.down=down?'0':'1';
      var rows=Array.from(body.rows);
      rows.sort(function(a,b){
        var x=a.cells[i].textContent,y=b.cells[i].textContent,p=parseFloat(x),q=parseFloat(y);
        var d=isNaN(p)||isNaN(q)?x.localeCompare(y):p-q;return down?-d:d;});
      rows.forEach(function(row){body.appendChild(row);});
      table.querySelectorAll('th').forEach(function(th){th.removeAttribute('aria-sort');});
      button.parentNode.setAttribute('aria-sort',down?'descending':'ascending');
    });
  });
});
document.querySelectorAll('input').forEach(function(input){
  input.addEventListener('input',function(){
    var wanted=input.value.toLowerCase();
    var rows=document.getElementById(input.dataset.table).tBodies[0].rows;
    Array.from(rows).forEach(function(row){
      row.hidden=row.textContent.toLowerCase().indexOf(wanted)<0;});
  });
});
"""


def to_html(board: Leaderboard, pictures: Mapping[str, str]) -> str:
    """The page.

    Args:
        board: The leaderboard.
        pictures: Caption to SVG text.
    """
    title = escape(board.suite.title)
    links = "".join(f'<a href="#{t.name}">{escape(t.title)}</a>' for t in board.tables)
    figures = "".join(
        f"<figure>{_inline(svg, i)}<figcaption>{escape(caption)}</figcaption></figure>"
        for i, (caption, svg) in enumerate(pictures.items())
    )
    tables = "".join(_section(table) for table in board.tables)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title}</h1><nav>{links}</nav>{figures}{tables}"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _inline(svg: str, number: int) -> str:
    """The SVG element alone, its ids told apart from those of the page's other pictures."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="p{number}-', element)
    element = re.sub(r'href="#', f'href="#p{number}-', element)
    return re.sub(r"url\(#", f"url(#p{number}-", element)


def _section(table: Table) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(table.text))
    paragraphs = "".join(f"<p>{p}</p>" for p in text.split("\n\n"))
    head = f'<h2 id="{table.name}">{escape(table.title)}</h2>{paragraphs}'
    if not table.rows:
        return f"{head}<p>Nothing yet.</p>"
    titles = "".join(f"<th><button>{escape(str(k))}</button></th>" for k in table.rows[0])
    lines = "".join(
        f"<tr>{''.join(_cell(value) for value in row.values())}</tr>" for row in table.rows
    )
    return (
        f'{head}<input type="search" aria-label="Filter" placeholder="filter" '
        f'data-table="table-{table.name}"><div class="wide"><table id="table-{table.name}">'
        f"<thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"<td{' class=n' if number else ''}>{escape(shown(value))}</td>"
