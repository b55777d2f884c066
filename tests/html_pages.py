"""Pages that make HTML parsers disagree, each with a name: unclosed, misnested, foreign, hidden,
deep, and badly written links.

Each is the shortest form of a mistake that the web makes, or of a rule in the tree-construction
part of the HTML standard (13.2.6) that a link's existence hangs on. ``soup`` makes random ones of
the same pieces.
"""

from __future__ import annotations

from random import Random

_MISNESTED = {
    "frameset after an input that is not shown": (
        "<input type=hidden><frameset><frame src=1></frameset>"
    ),
    "frameset after text": "x<frameset><frame src=0></frameset><a href=1>",
    "anchor in a nobr": "<nobr><a href=1><nobr><a href=2></nobr></a><nobr></nobr>",
    "buttons nested": "<button><a href=1><button><a href=2></button></a></button><a href=3>",
    "many anchors unclosed": "".join(f"<a href={n}><p>" for n in range(100)),
    "anchors unclosed": "<p><a href=1>one<p><a href=2>two<p>three",
    "anchors nested": "<a href=1>one <a href=2>two</a> three</a>",
    "anchors nested in blocks": "<a href=1><div><a href=2>x</div>y<a href=3>z",
    "anchor around a table": "<a href=1><table><tr><td><a href=2>x</td></tr></table>y</a>",
    "anchor in a button": "<a href=1><button><a href=2>x</a></button></a>",
    "anchor in an object": "<a href=1><object data=o><a href=2>x</a></object></a>",
    "anchor in a marquee": "<a href=1><marquee><a href=2>x</a></marquee><a href=3>y",
    "adoption agency": "<a href=1><b><div><a href=2><i><p><a href=3>x</b></i></p></div></a>",
    "adoption agency, many": (
        "<b>" * 12 + "<a href=1>" + "<div><p>" * 6 + "</b></a>" * 6 + "<a href=2>"
    ),
    "adoption agency with formatting": (
        "<a href=1><nobr><font color=x><div><nobr><a href=2></nobr></font></div></a><a href=3>"
    ),
    "noah's ark": "<p><b><b><b><b><a href=1></p><p>x<a href=2>",
    "headings unclosed": "<h1><a href=1>x<h2><a href=2>y</h1></h2><h3></a><a href=3>",
    "list items": "<ul><li><a href=1>a<li><a href=2>b<ul><li><a href=3>c</ul><li><a href=4>d</ul>",
    "definition lists": "<dl><dt><a href=1>a<dd><a href=2>b<dt><a href=3>c</dl><a href=4>",
    "end tags without a start": "</a></p></br></form></table></body></html><a href=1>after",
    "after the end": (
        "<html><body><a href=1></body></html><a href=2>x<p><a href=3>y<!-- --><a href=4>"
    ),
    "after a frameset": "<frameset><frame src=1></frameset><a href=2>x",
    "body attributes merged": (
        "<body background=1><a href=2><body background=3 lang=x><html lang=y>"
    ),
    "two heads": (
        "<head><link rel=next href=1></head><head><link rel=prev href=2></head><body><link rel=next"
        " href=3>"
    ),
    "head after the body": "<p>x<head><base href=/b/><link rel=canonical href=1></head><a href=2>",
    "link between head and body": (
        "<head></head><link rel=next href=1><base href=/b/><meta name=robots"
        " content=nofollow><body><a href=2>"
    ),
    "ruby": "<ruby><rb>x<rt><a href=1>y<rtc><a href=2><rp>(<a href=3></ruby>",
    "menu items": "<menu><menuitem><a href=1>x</menuitem><li><a href=2></menu>",
    "isindex": "<isindex action=1 prompt=x><a href=2>",
    "image for img": "<image src=1><a href=2><image srcset='3 2x'></a>",
    "quirk with a p around a table": "<p><table><tr><td><a href=1></table><a href=2>",
    "doctype and a p around a table": (
        "<!doctype html><p><table><tr><td><a href=1></table><a href=2>"
    ),
    "doctype late": "<a href=1><!doctype html><a href=2>",
    "dialog, details, summary": (
        "<details><summary><a href=1></summary><a href=2></details><dialog><a href=3></dialog>"
    ),
}
_TABLES = {
    "formatting around a table": "<font><a href=1><table><tr><td></font></a><a href=2></table></a>",
    "formatting closed in a table": (
        "<b><table></b><a href=1><tr></a><td><a href=2></b></table><a href=3>"
    ),
    "backgrounds": "<table background=0><tr background=0><td background=0><a href=1></table>",
    "foster parenting": (
        "<table><a href=1>x</a><tr><a href=2>y</a><td><a href=3>z</a></td></tr><a href=4>w</table>"
    ),
    "foster parenting of an open anchor": (
        "<a href=1>a<table><a href=2>b<tr><td>c</table>d<a href=3>"
    ),
    "foster parenting of resources": (
        "<table><img src=1><tr><script src=2></script><iframe src=3></iframe><link rel=next"
        " href=4><td>x</table>"
    ),
    "form in a table": (
        "<table><form action=1><tr><td><a href=2><input type=image src=3></form></table><form"
        " action=4>"
    ),
    "form in a form": (
        "<form action=1><div><form action=2><a href=3></form></div></form><form action=4>"
    ),
    "hidden input in a table": (
        "<table><input type=hidden src=0><input type=image src=1><tr><td><a href=2></table>"
    ),
    "caption and colgroup": (
        "<table><caption><a href=1>x<colgroup><col><a href=2><tbody><tr><th><a href=3></table>"
    ),
    "tables in tables": (
        "<table><tr><td><table><tr><td><a href=1></td><a href=2></table><a href=3></td><a"
        " href=4></table>"
    ),
    "cell without a row": (
        "<table><td><a href=1><th><a href=2><tr><td><a href=3></table><td><a href=4>"
    ),
    "select in a table": (
        "<table><tr><td><select><option><a href=1>x</option><tr><td><a href=2></table>"
    ),
    "table without an end": "<table><tr><td><a href=1><div><table><tr><a href=2>",
    "style and template in a table": (
        "<table><style>a</style><template><tr><td><a href=0></template><tr><td><a href=1></table>"
    ),
}
_SELECTS = {
    "options": "<select><option value=0>x<option>y</select><a href=1>",
    "select in a select": "<select><option>x<select><a href=1>y</a>",
    "input ends a select": "<select><option><input type=image src=1><a href=2>",
    "script in a select": "<select><script src=1></script><option></select><a href=2>",
    "select never closed": "<select><option>x<p>y</p></option><div>",
    "optgroups": "<select><optgroup><option>x<optgroup><option>y<hr></select><a href=1>",
    "datalist": "<datalist><option><a href=1>x</datalist><a href=2>",
}
_HIDDEN = {
    "textarea": "<textarea><a href=0></textarea><a href=1>",
    "textarea unclosed": "<a href=1><textarea><a href=0>",
    "title": "<title><a href=0></title><a href=1>",
    "title unclosed": "<title>x<a href=0><p>",
    "style": "<style><a href=0></style><a href=1>",
    "script": "<script>'<a href=0>'</script><a href=1>",
    "script double escaped": "<script><!--<script><a href=0></script><a href=0></script><a href=1>",
    "script escaped": "<script><!-- </script><a href=1> --><a href=2>",
    "script unclosed": "<a href=1><script>x<a href=0></scrip></SCRIPT ><a href=2>",
    "end of a script with attributes": "<script></script href=0><a href=1></script/><a href=2>",
    "xmp": "<xmp><a href=0></xmp><a href=1>",
    "plaintext": "<a href=1><plaintext><a href=0></plaintext><a href=0>",
    "listing and pre": "<pre>\n<a href=1></pre><listing>\n<a href=2></listing>",
    "iframe content": "<iframe src=1><a href=0></iframe><a href=2>",
    "noembed": "<noembed><a href=0></noembed><a href=1>",
    "noframes": "<noframes><a href=0></noframes><a href=1>",
    "noframes in a frameset": "<frameset><frame src=1><noframes><a href=0></noframes></frameset>",
    "noscript in the body": "<p><noscript><a href=1><img src=2></noscript><a href=3>",
    "noscript in the head": (
        "<head><noscript><link rel=next href=1><meta http-equiv=refresh"
        " content='0;url=0'></noscript><link rel=prev href=2>"
    ),
    "noscript in the head with an image": (
        "<head><noscript><img src=1></noscript><link rel=next href=2><base href=/b/></head><a"
        " href=3>"
    ),
    "noscript unclosed": "<noscript><a href=1><p><a href=2>",
    "comment": "<!-- <a href=0> --><a href=1>",
    "comment unclosed": "<a href=1><!-- <a href=0>",
    "comment ends with a bang": "<!-- <a href=0> --!><a href=1>",
    "comment short": "<!--><a href=1><!---><a href=2><!-- --- --><a href=3>",
    "comment nested": "<!-- <!-- <a href=0> --> <a href=1> -->",
    "bogus comments": (
        "<!a href=0><?php echo '<a href=0>' ?><a href=1></ x><a href=2><!><a href=3></><a href=4>"
    ),
    "conditional comments": (
        "<!--[if IE]><a href=0><![endif]--><![if !IE]><a href=1><![endif]><!--[if !IE]><!--><a"
        " href=2><!--<![endif]-->"
    ),
    "CDATA in HTML": "<![CDATA[<a href=1>]]><a href=2>",
    "CDATA in SVG": "<svg><![CDATA[<a href=0>]]><a href=1></svg>",
    "template": (
        "<template><a href=0><base href=/b/><template><a href=0></template></template><a href=1>"
    ),
    "template in the head": (
        "<head><template><a href=0></template><link rel=next href=1></head><a href=2>"
    ),
    "template unclosed": "<a href=1><template><a href=0><div>",
    "template end without a start": "</template><a href=1>",
    "embed and object": "<object data=1><embed src=2><a href=3></object><embed src=4>",
    "media fallback": (
        "<video src=1 poster=2><source src=3><track src=4><a href=5></video><audio><a"
        " href=6></audio>"
    ),
    "picture": (
        "<picture><source srcset='1, 2 2x' media=x><img src=3 srcset='4 100w, 5 200w'></picture>"
    ),
}
_FOREIGN = {
    "math in svg in a table": (
        "<table><tr><td><svg><math><a href=1></math><foreignobject><a href=2></table><a"
        " href=3></svg><a href=4>"
    ),
    "math integration points": (
        "<math><mtext><p><a href=1></mtext><mi><svg><a href=2></svg></mi><ms><malignmark><a"
        " href=3></ms></math>"
    ),
    "CDATA in pieces": (
        "<svg><![CDATA[<a href=0>]]]]><![CDATA[>]]><a href=1></svg><math><![CDATA[</math><a"
        " href=0>]]></math><a href=2>"
    ),
    "svg paints": (
        "<svg><use href=0 /><feImage href=0 /><linearGradient href=0 /><script href=0 /></svg><a"
        " href=1>"
    ),
    "svg links": (
        "<svg><a xlink:href=1>x</a><a href=2 xlink:href=0>y</a><A HREF=3>z</A></svg><a"
        " xlink:href=0>w"
    ),
    "svg image": "<svg><image xlink:href=1 /><image href=2 /></svg>",
    "svg self-closing": "<svg><a href=1 /><a href=2></svg><a href=3>",
    "svg breakout": "<svg><a href=1><p><a href=2></svg><a href=3>",
    "svg title and desc": (
        "<svg><title><a href=1>x</title><desc><a href=2><base href=/b/></desc></svg>"
    ),
    "svg foreignObject": (
        "<svg><foreignObject><a href=1><p><base href=/b/><iframe src=2></foreignObject><iframe"
        " src=0></svg>"
    ),
    "svg script and style": (
        "<svg><script><a href=1></script><style><a href=2></style><a href=3></svg>"
    ),
    "svg font": "<svg><font><a href=1></font><font color=x><a href=2>",
    "html elements' names in svg": (
        "<svg><base href=/b/><link rel=canonical href=0><form action=0></form><iframe"
        " src=0></iframe><script src=0></script><area href=0><video src=0 poster=0></video><object"
        " data=0></object><title>no</title></svg><a href=1>"
    ),
    "svg end tags": "<svg><a href=1></p><a href=2></br><a href=3></svg>",
    "svg in a table": "<table><tr><td><svg><a href=1></td></svg><a href=2></table>",
    "svg template": "<svg><template><a href=1></template><a href=2></svg>",
    "svg in svg": "<svg><svg><a href=1></svg><a href=2></svg><a href=3>",
    "math link": "<math><a href=1>x</a><mi><a href=2>y</mi><mglyph><a href=3></math>",
    "math annotation": (
        "<math><annotation-xml encoding='text/html'><a href=1><p><a"
        " href=2></annotation-xml><annotation-xml><a href=3></math>"
    ),
    "math breakout": "<math><mrow><a href=1><div><a href=2></math><a href=3>",
    "svg in math": (
        "<math><annotation-xml><svg><a href=1></svg></annotation-xml></math><math><mi><svg><a"
        " href=2>"
    ),
    "names in math": (
        "<math><base href=/b/><form action=0></form><link rel=next href=0></math><a href=1>"
    ),
    "desc as in html": "<desc><a href=1></desc><svg><desc><svg><a href=2>",
}
_ATTRIBUTES = {
    "references to nothing": (
        '<a href="?a=&#0;&#x80;&#xD800;&#x110000;&#xFFFE;&#;&#x;&#xg;b&#49">x</a>'
    ),
    "markup in values": '<a href="1<b>2" title="a>b">x</a><a title=a>b href=0>y</a><a href=3',
    "blanks that are none": (
        "<a\xa0href=0>x</a><a href=\u20031>y</a><a\u2028href=0><a \x0bhref=0>z</a><a"
        " href=2\x0b>w</a>"
    ),
    "sources that only scripts read": (
        '<img data-src=0 src=1 data-srcset="0 2x"><iframe data-src=0 srcdoc="<a href=0>"'
        " src=2></iframe>"
    ),
    "other URLs": (
        "<form action=1><button formaction=0></button></form><q cite=0></q><a href=2 ping=0><img"
        " longdesc=0 usemap=0 src=3>"
    ),
    "duplicate": "<a href=1 href=0 HREF=0>x</a>",
    "entities": (
        "<a href='?a&ampb&amp=c&amp;d&copy=1&copy;&not=2&notit;&lt&gt;'>x<a"
        " href='?&#x41;&#65;&#65&#x;&#;&x;&#0;&#128;&#xD800;&#x110000;'>"
    ),
    "entities without semicolon": (
        '<a href="?x=1&region=2&reg=3&sect=4&section=5&para&param=6&times=7&lang=8&order=9&uml">'
    ),
    "entities in long names": (
        "<a href='&NotEqualTilde;&CounterClockwiseContourIntegral;&ngE;&acE;&fjlig;'>"
    ),
    "unquoted": "<a href=1/2?a=b&c=d'e\"f`g=h<i>x</a><a href=/ >y</a><a href=2/>z</a>",
    "no value": "<a href>x</a><a href=>y</a><a href= >z</a><a href= 1>w",
    "spaces around the equals sign": (
        "<a href \n=\t1>x<a href\f=2><a\nhref=3><a/href=4><a\x0chref=5>"
    ),
    "quotes missing": "<a href='1>x</a><a href='2'>y</a>",
    "quote at the end": '<a href=1\'>x</a><a href="2""class=x>y',
    "solidus": "<a/ href=1/ /class=x><a href='2'/><br/><a href=3/>",
    "blanks in href": (
        "<a href=' 1 '>x<a href='\t\n2\r\n'>y<a href='3 4'>z<a href='5\n6\t7'>w<a"
        " href='\u00a08\u3000'>v"
    ),
    "control characters in href": "<a href='\x01\x1f1\x7f\x08'>x<a href='2\x0b3'>",
    "NUL": "<a href='1\x002'>x\x00<a hr\x00ef=0><\x00a href=0><a href=\x003>",
    "case": "<A HREF=1>x</A><Link REL=Canonical HREF=2><IMG SRC=3><FRAMESET><FRAME SRC=0>",
    "names of attributes": "<a xhref=0 data-href=0 href1=0 'href=0' =href=0>x</a><a \"href=1>",
    "end of file in a tag": "<a href=1>x<a href=2 class=",
    "end of file in a value": "<a href=1>x<a href='2>y",
    "end of file in a name": "<a href=1>x</a><a hre",
    "tag that is no tag": "<1 href=0>< a href=0><a href=1><=a href=0>",
    "carriage returns": "<a\rhref=1\r>x\r\n<a href='2\r\n3\r4'>",
    "surrogates and non-characters": "<a href='\ufffe\ufdd0\U0001fffe1'>x",
    "not ASCII": "<a href='/ä/日本?ü=€'>x</a><a href='//bücher.example/'>y</a>",
    "tag names that begin alike": (
        "<abbr href=0><a-b href=0><area href=1><article href=0><a:b href=0><a.b href=0>"
    ),
    "srcset": (
        "<img srcset=' 1 , 2 2x,3 3x, data:image/png;base64,AA== 4x,5, 6 (a,b), ,,7 1w 2w,8 1x 2x,9"
        " 0w,, '>"
    ),
    "srcset with newlines": (
        "<img src=1 srcset='\n2 1x,\n\t3\n2x\n'><source srcset='\r4 100w,5 200w'>"
    ),
    "preload": (
        "<link rel=preload as=image href=1 imagesrcset='2 1x, 3 2x'><link rel=preload"
        " imagesrcset=4><link rel=next imagesrcset=0 href=5>"
    ),
    "link relations": (
        "<link rel='nofollow canonical' href=1><link rel=x href=2><link href=0><link rel=''"
        " href=0><link rel=preconnect href=0><link rel='ALTERNATE StyleSheet' href=3><link rel=next"
        " href=''><link rel='dns-prefetch next' href=4>"
    ),
    "empty sources": (
        "<img src=''><iframe src=''></iframe><frame src=''><script src=''></script><input"
        " type=image src=''><a href=''>x"
    ),
    "fragments": (
        "<a href='#'>x<a href='#a'>y<a href='1#a'>z<a href='1#b'>w<a href=' #c'>v<a href='?#d'>u"
    ),
    "rel": (
        "<a rel='nofollow' href=1><a href=1><a rel='x,nofollow' href=2><a rel=nofollowx href=3><a"
        " rel='\tUGC\n' href=4>"
    ),
    "input types": (
        "<input type=image src=1 srcset=0><input type=' image' src=0><input src=0><input type=IMAGE"
        " src=2>"
    ),
}
_BASES = {
    "twice": "<base href=/1/><base href=/2/><a href=x>",
    "without href": "<base target=_top><base href=/1/><a href=x>",
    "after the links": "<a href=x><a href='#y'><base href=/1/>",
    "javascript": "<base href='javascript:x'><base href=/2/><a href=x>",
    "data": "<base href='data:text/html,x'><a href=x>",
    "empty": "<base href=''><base href=/2/><a href=x>",
    "blanks": "<base href=' \n/1/ '><a href=x>",
    "in the body": "<p><base href=/1/><a href=x>",
    "in a table": "<table><tr><base href=/1/><td><a href=x></table>",
    "in a noscript": "<body><noscript><base href=/0/></noscript><base href=/1/><a href=x>",
    "in svg": "<svg><base href=/0/></svg><a href=x>",
    "in a select": "<select><option>x</option></select><base href=/1/><a href=x>",
    "no URL": "<base href='http://[x'><a href=y>",
}
_METAS = {
    "names": (
        '<meta name=robots><meta property=robots content=x><meta name="" content=x><meta content=y'
        " name=robots>"
    ),
    "refresh": (
        "<meta http-equiv=refresh content='5;url=1'><meta http-equiv=REFRESH content='0; URL ="
        ' "2" x\'>'
    ),
    "refresh with a name": "<meta name=refresh http-equiv=refresh content='0;url=1'>",
    "refresh without url": (
        "<meta http-equiv=refresh content='5'><meta http-equiv=refresh content='5;1'><meta"
        " http-equiv=refresh content=';url=0'>"
    ),
    "refresh of a strange form": (
        "<meta http-equiv=refresh content='.5,url=1'><meta http-equiv=refresh content=' 5 url=2'>"
    ),
    "refresh with blanks in its name": "<meta http-equiv=' refresh ' content='0;url=0'>",
    "refresh in the body": (
        "<p><meta http-equiv=refresh content='0;url=1'><svg><meta http-equiv=refresh"
        " content='0;url=2'>"
    ),
    "refresh with an entity": "<meta http-equiv=refresh content='0;url=1?a&amp;b&copy=2'>",
    "robots": (
        "<META NAME=' Robots ' CONTENT='NoIndex'><meta name=googlebot content=nofollow><meta"
        " content=x><meta name=robots>"
    ),
    "robots in the body": (
        "<div><meta name=robots content=none><table><meta name=robots content=noindex></table>"
    ),
    "robots in svg": (
        "<svg><meta name=robots content=noindex></svg><svg><desc><meta name=robots"
        " content=nofollow>"
    ),
    "robots in a template and a noscript": (
        "<template><meta name=robots content=a></template><noscript><meta name=robots"
        " content=b></noscript>"
    ),
}
_DEEP = {
    "nested blocks": "<div>" * 600 + "<a href=1>" + "</div>" * 600 + "<a href=2>",
    "nested formatting": "<b>" * 600 + "<p><a href=1>x",
    "nested anchors": "".join(f"<a href={n}><div>" for n in range(40)),
    "nested tables": "<table><tr><td>" * 120 + "<a href=1>" + "</table><a href=2>" * 60,
    "nested lists": "<ul><li>" * 300 + "<a href=1>",
    "nested svg": "<svg>" * 300 + "<a href=1><p><a href=2>",
    "nested spans unclosed": "".join(f"<span><i><a href={n}>" for n in range(60)),
    "many attributes": "<a " + " ".join(f"a{n}=x" for n in range(2000)) + " href=1>",
    "long value": f"<a href=1{'x' * 70_000}>y<a href=2>",
    "long tag name": f"<{'a' * 70_000} href=0><a href=1>",
    "many links": "".join(f"<a href={n}>x</a> " for n in range(5000)),
}
_GROUPS = {
    "misnested": _MISNESTED,
    "table": _TABLES,
    "select": _SELECTS,
    "hidden": _HIDDEN,
    "foreign": _FOREIGN,
    "attribute": _ATTRIBUTES,
    "base": _BASES,
    "meta": _METAS,
    "deep": _DEEP,
}
NASTY = {
    f"{group}: {name}": html for group, pages in _GROUPS.items() for name, html in pages.items()
}

# Bytes whose encoding decides what is markup: a mark, a declaration, none, and bytes that stay
# broken.
ENCODED: dict[str, tuple[bytes, str]] = {
    "UTF-8 with a mark": (b"\xef\xbb\xbf<a href='/\xc3\xa4'>", "utf-8"),
    "UTF-16LE with a mark": (b"\xff\xfe" + "<a href='/ä'>".encode("utf-16-le"), "utf-16-le"),
    "UTF-16BE with a mark": (b"\xfe\xff" + "<a href='/ä'>".encode("utf-16-be"), "utf-16-be"),
    "declared": (b"<meta charset=koi8-r><a href='/\xc1'>", "koi8-r"),
    "declared as UTF-16": (b"<meta charset=utf-16><a href='/\xc3\xa4'>", "utf-8"),
    "declared Shift_JIS": (
        "<meta charset=shift_jis><a href='/表'>ソ</a><a href=2>".encode("shift_jis"),
        "shift_jis",
    ),
    "declared ISO-2022-JP": (
        "<meta charset=iso-2022-jp><a href='/日本'>x</a>".encode("iso-2022-jp"),
        "iso-2022-jp",
    ),
    "declared GB18030": ("<meta charset=gb2312><a href='/中文'>x</a>".encode("gb18030"), "gb18030"),
    "declared Big5": ("<meta charset=big5><a href='/功'>x</a><a href=2>".encode("big5"), "big5"),
    "broken UTF-8": (
        b"<meta charset=utf-8><a href='/\xc3'>x</a><a href=2\xff>\xe2\x82<a href=3>",
        "utf-8",
    ),
    "declaration beyond the first bytes": (
        b"<!--" + b"x" * 1100 + b"--><meta charset=utf-8><a href='/\xc3\xa4'>",
        "utf-8",
    ),
}

_TAGS = [
    *(
        "a",
        "p",
        "div",
        "b",
        "i",
        "font",
        "nobr",
        "marquee",
        "applet",
        "object",
        "button",
        "h1",
        "span",
        "pre",
        "hr",
        "br",
        "dialog",
        "summary",
    ),
    *(
        "table",
        "tr",
        "td",
        "th",
        "tbody",
        "caption",
        "colgroup",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "ruby",
        "rt",
        "frameset",
        "body",
        "html",
        "head",
    ),
    *(
        "select",
        "option",
        "optgroup",
        "form",
        "input",
        "template",
        "noscript",
        "script",
        "style",
        "textarea",
        "title",
        "xmp",
        "iframe",
    ),
    *(
        "svg",
        "math",
        "mi",
        "desc",
        "foreignObject",
        "annotation-xml",
        "base",
        "link",
        "meta",
        "img",
        "area",
    ),
]
_NAMES = (
    "",
    "href",
    "src",
    "action",
    "rel=next href",
    "name=robots content",
    "data",
    "xlink:href",
    "encoding=text/html x",
)
_VALUES = (
    "1",
    "/2",
    "3?a&amp;b",
    "'4 5'",
    '"6"',
    "#7",
    "http://e.example/8",
    "'&copy9'",
    "''",
    "x>y",
    "a\x00b",
)


def soup(random: Random, pieces: int) -> str:
    """A page of random start tags, end tags, text and comments, with links on them."""
    return "".join(_piece(random) for _ in range(pieces))


def _piece(random: Random) -> str:
    tag, sort = random.choice(_TAGS), random.randrange(20)
    if sort < 9:
        return f"<{tag}{_attribute(random)}>"
    if sort < 14:
        return f"</{tag}>"
    if sort < 18:
        return f"<a href={random.choice(_VALUES)}>"
    return random.choice(
        (
            "text",
            " ",
            "\n",
            "<!-- x -->",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&amp",
            "\x00",
            "<a href=",
            "</",
        )
    )


def _attribute(random: Random) -> str:
    name = random.choice(
        (
            "",
            "href",
            "src",
            "action",
            "rel=next href",
            "name=robots content",
            "data",
            "xlink:href",
            "encoding=text/html x",
        )
    )
    return f" {name}={random.choice(_VALUES)}" if name else ""
