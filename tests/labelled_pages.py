"""Pages in the forms that frameworks, site generators and people give, with a label each.

The label says whether a reader without scripts misses what the page is for. The labels were written
before the rule was run on the pages, by what the page is; they are not changed to fit a rule. The
markup is ours.
"""

from __future__ import annotations

from typing import NamedTuple


class LabelledPage(NamedTuple):
    """``needs``: without its scripts the page does not show what it is for."""

    name: str
    needs: bool
    markup: str


_WORDS = (
    "The harbour opened in spring and the first boats came from the islands with salt and wool."
    " Merchants kept their books in three languages, and the tower keeper noted every sail. "
)
ARTICLE = "".join(f"<p>{_WORDS * 2}</p>" for _ in range(6))
_NAV = "".join(f'<a href="/part/{each}">Part {each} of the site</a> ' for each in range(12))
_FOOTER = f"<footer>Harbour Company, Quay 4. All rights reserved. {_WORDS}{_NAV}</footer>"
_APP = '<script src="/static/js/main.3f2a91.js" defer></script>'
_MODULE = '<script type="module" crossorigin src="/assets/index-4f9c2b.js"></script>'
_ANALYTICS = '<script async src="https://metrics.example/tag.js"></script>'
_STATE = '{"props":{"pageProps":{}},"page":"/","query":{},"buildId":"x9"}'


def _page(body: str, head: str = "", title: str = "Harbour", attributes: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}'
        f"</head><body{attributes}>{body}</body></html>"
    )


_NEED = {
    "react app": _page(
        '<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>',
        _APP,
    ),
    "vite app": _page('<div id="app"></div>', _MODULE),
    "vite app with a spinner": _page(
        '<div id="root"><div class="spinner"><span></span><span></span></div></div>' + _MODULE
    ),
    "next, on the client only": _page(
        f'<div id="__next"></div><script id="__NEXT_DATA__" type="application/json">{_STATE}'
        "</script>",
        '<script src="/_next/static/chunks/main.js" defer></script>',
    ),
    "next, with a word while it loads": _page(
        '<div id="__next"><div class="center">Loading…</div></div>'
        '<script src="/_next/static/chunks/main.js" defer></script>'
    ),
    "nuxt, on the client only": _page(
        '<div id="__nuxt"></div><script type="application/json" id="__NUXT_DATA__">[]</script>',
        '<script type="module" src="/_nuxt/entry.js"></script>',
    ),
    "angular": _page(
        '<app-root></app-root><script src="main.js" type="module"></script>',
        '<base href="/">',
    ),
    "angularjs with templates": _page(
        '<div ng-app="shop" ng-controller="List"><h1>{{title}}</h1><ul>'
        '<li ng-repeat="each in goods"><a ng-href="/goods/{{each.id}}">{{each.name}}</a>'
        "{{each.price | currency}}</li></ul></div>" + _FOOTER,
        '<script src="/angular.min.js"></script><script src="/shop.js"></script>',
    ),
    "sveltekit fallback": _page(
        '<div style="display: contents"><script>{const e=document.currentScript.parentElement;'
        'Promise.all([import("/_app/start.js"),import("/_app/app.js")]).then(([k,a])=>'
        "k.start(a,e));}</script></div>",
        '<link rel="modulepreload" href="/_app/start.js">',
    ),
    "ember": _page(
        '<script src="/assets/vendor.js"></script><script src="/assets/shop.js"></script>'
        '<div id="ember-basic-dropdown-wormhole"></div>'
    ),
    "docsify": _page(
        '<div id="app">Please wait...</div><script>window.$docsify = {name: "Harbour"}</script>'
        '<script src="/docsify.min.js"></script>'
    ),
    "vue in the page": _page(
        f"<header>{_NAV}</header>"
        '<div id="shop" v-cloak><h1>{{ title }}</h1><ul><li v-for="each in goods" :key="each.id">'
        '<a :href="each.url">{{ each.name }}</a></li></ul></div>' + _FOOTER,
        '<script src="/vue.global.js"></script><script src="/shop.js"></script>',
    ),
    "alpine list": _page(
        f"<header><h1>Harbour</h1>{_NAV}</header>"
        '<main x-data="goods()" x-init="load()"><template x-for="each in goods">'
        '<article><a :href="each.url" x-text="each.name"></a></article></template></main>'
        + _FOOTER,
        '<script defer src="/alpine.js"></script>',
    ),
    "knockout list": _page(
        f"<header>{_NAV}</header>"
        '<ul data-bind="foreach: goods"><li><a data-bind="attr: {href: url}, text: name"></a>'
        "</li></ul>" + _FOOTER,
        '<script src="/knockout.js"></script><script src="/shop.js"></script>',
    ),
    "results that a script fills": _page(
        f'<header><h1>Results</h1>{_NAV}</header><main><ul id="results"></ul></main>' + _FOOTER,
        '<script src="/jquery.js"></script><script src="/results.js"></script>',
    ),
    "an empty main between header and footer": _page(
        f"<header>{_NAV}</header><main id='content'></main>{_FOOTER}{_MODULE}"
    ),
    "a shell with a cookie banner": _page(
        '<div id="cookies"><p>We use cookies to measure how our pages are used, and to show you'
        " what fits you. You can read more about it in our notice on privacy, and you can change"
        " your choice at any time at the end of each page. Without a choice only necessary ones"
        ' are set, which keep you logged in and remember your language.</p><a href="/privacy">'
        'Privacy</a><button>Accept</button><button>Refuse</button></div><div id="root"></div>'
        + _APP
    ),
    "gatsby, a route of the client": _page(
        '<div id="___gatsby"><div style="outline:none" tabindex="-1" id="gatsby-focus-wrapper">'
        '</div></div><script src="/app-1.js" async></script>'
    ),
    "remix, with a fallback": _page(
        "<p>Loading...</p><script>window.__remixContext={}</script>"
        '<script type="module" async>import "/assets/manifest.js";</script>',
    ),
    "astro, an island of the client only": _page(
        f"<header>{_NAV}</header><h1>Timetable</h1><astro-island uid='1' client='only'"
        ' component-url="/_astro/Table.js" renderer-url="/_astro/client.js"></astro-island>'
        '<script type="module" src="/_astro/hoisted.js"></script>' + _FOOTER
    ),
    "one element of its own": _page(
        "<harbour-app></harbour-app>", '<script type="module" src="/src/harbour-app.js"></script>'
    ),
    "blazor": _page(
        '<div id="app"><svg class="loading-progress"><circle r="40%"/></svg>'
        '<div class="loading-progress-text"></div></div>'
        '<div id="blazor-error-ui">An unhandled error has occurred.<a href="">Reload</a></div>'
        '<script src="_framework/blazor.webassembly.js"></script>'
    ),
    "flutter": _page("", '<script src="flutter_bootstrap.js" async></script>'),
    "api described by a file": _page(
        '<redoc spec-url="/openapi.json"></redoc><script src="/redoc.standalone.js"></script>'
    ),
    "api browser": _page(
        '<div id="swagger-ui"></div><script src="/swagger-ui-bundle.js"></script>'
        '<script>window.ui = SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui"})'
        "</script>"
    ),
    "elm": _page(
        '<div id="elm"></div><script>Elm.Main.init({node: document.getElementById("elm")})'
        "</script>",
        '<script src="/elm.js"></script>',
    ),
    "a redirect by script": _page('<script>location.replace("/start/en");</script>', title=""),
    "written by script": _page(
        "<script>document.write('<h1>'+t+'</h1>'+list(items))</script>",
        '<script src="items.js"></script>',
    ),
    "turbolinks frame": _page(
        f"<header>{_NAV}</header><turbo-frame id='goods' src='/goods?frame=1' loading='lazy'>"
        "</turbo-frame>" + _FOOTER,
        '<script src="/turbo.js"></script>',
    ),
    "htmx list": _page(
        f"<header>{_NAV}</header><h1>Goods</h1>"
        '<div hx-get="/goods/list" hx-trigger="load"></div>' + _FOOTER,
        '<script src="/htmx.min.js"></script>',
    ),
    "skeleton of a list": _page(
        f"<header>{_NAV}</header><main>"
        + '<div class="skeleton"><div class="skeleton-line"></div></div>' * 12
        + f"</main>{_FOOTER}{_MODULE}"
    ),
    "asks for scripts": _page(
        f"<header>{_NAV}</header><div class='page'></div><noscript><p>This site requires"
        " JavaScript. Please enable JavaScript in your browser.</p></noscript>" + _FOOTER,
        _APP,
    ),
}

_NO_NEED = {
    "article": _page(ARTICLE),
    "article with measurements": _page(f"{_NAV}{ARTICLE}{_FOOTER}{_ANALYTICS}"),
    "article with highlighted code": _page(
        f"{ARTICLE}<pre><code>print(1)</code></pre>", '<script src="/highlight.min.js"></script>'
    ),
    "react, rendered by the server": _page(
        f'<div id="root"><header>{_NAV}</header><main>{ARTICLE}</main></div>{_APP}'
        "<noscript>You need to enable JavaScript to run this app.</noscript>"
    ),
    "next, rendered by the server": _page(
        f'<div id="__next"><main>{ARTICLE}</main></div>'
        f'<script id="__NEXT_DATA__" type="application/json">{_STATE}</script>',
        '<script src="/_next/static/chunks/main.js" defer></script>',
    ),
    "nuxt, rendered by the server": _page(
        f'<div id="__nuxt"><div>{_NAV}{ARTICLE}</div></div><div id="teleports"></div>',
        '<script type="module" src="/_nuxt/entry.js"></script>',
    ),
    "sveltekit, rendered by the server": _page(
        f'<div style="display: contents">{ARTICLE}<script>import("/_app/start.js")</script></div>'
    ),
    "astro with islands": _page(
        f"<main>{ARTICLE}<astro-island client='load' ssr><button>3</button></astro-island></main>"
        '<script type="module" src="/_astro/hoisted.js"></script>'
    ),
    "documentation": _page(
        f'<div class="navbar">{_NAV}</div><div class="document">{ARTICLE}</div>'
        '<div id="searchbox" style="display: none"></div><script>$("#searchbox").show(0)</script>',
        '<script src="/_static/doctools.js"></script>',
    ),
    "manual of templates": _page(
        f"{ARTICLE}<p>Write <code>{{{{ user.name }}}}</code> for a value, and <code>{{{{ 1 + 2 }}}}"
        "</code> for a sum. A loop is <code>v-for</code> or <code>{% for %}</code>.</p>"
        + _ANALYTICS
    ),
    "comments need scripts": _page(
        f'{ARTICLE}<div id="disqus_thread"></div><script src="/disqus.js"></script><noscript>Please'
        " enable JavaScript to view the comments.</noscript>"
    ),
    "place for dialogs": _page(
        f'<main>{ARTICLE}</main><div id="modal-root"></div><div id="app"></div>{_APP}'
    ),
    "not found": _page(
        "<h1>Page not found</h1><p>The page that you looked for does not exist. It may have moved."
        ' Go back to the <a href="/">start page</a> or use the search.</p>' + _ANALYTICS,
        title="404",
    ),
    "login": _page(
        '<h1>Log in</h1><form action="/login" method="post"><label>Name<input name="name"></label>'
        '<label>Password<input type="password" name="word"></label><button>Log in</button></form>'
        '<a href="/forgotten">Forgotten?</a>' + _APP,
    ),
    "search form": _page(
        '<form action="/search"><input name="q"><button>Search the harbour</button></form>'
        '<a href="/about">About</a> <a href="/imprint">Imprint</a> <a href="/help">Help</a>'
        + _ANALYTICS
    ),
    "contact with a map": _page(
        "<h1>Contact</h1><p>Harbour Company, Quay 4, Old Town. Telephone 030 123 456. Open from"
        ' nine to five on working days, and on Saturdays until noon.</p><div id="map"></div>'
        '<script src="https://maps.example/api.js"></script>'
    ),
    "coming soon": _page(
        "<h1>Coming soon</h1><p>Our new shop opens in the first week of May. Until then write to"
        ' us at <a href="mailto:shop@harbour.example">shop@harbour.example</a>.</p>'
        '<span id="countdown"></span><script src="/countdown.js"></script>'
    ),
    "list of files": _page(
        "<h1>Index of /pub</h1><pre>"
        + "".join(f'<a href="file{each}.tar.gz">file{each}.tar.gz</a>\n' for each in range(60))
        + "</pre>"
    ),
    "short note": _page(
        "<h1>Fog</h1><p>No boats today. The tower sounds the horn each minute until it lifts."
        '</p><a href="/notes">All notes</a>' + _ANALYTICS
    ),
    "a poem": _page("<h1>Tide</h1><p>In and out,<br>in and out,<br>no doubt.</p>"),
    "a picture": _page('<a href="2.html"><img src="1.jpg" alt="the pier at dawn"></a>'),
    "a player": _page('<h1>Foghorn</h1><video src="/horn.mp4" controls></video>' + _ANALYTICS),
    "frames": (
        '<html><head><title>API</title><script src="stub.js"></script></head><frameset'
        ' cols="20%,80%"><frame src="overview.html"><frame src="summary.html"></frameset></html>'
    ),
    "a refresh": _page("", '<meta http-equiv="refresh" content="0; url=/en/">'),
    "an empty page": _page("", title=""),
    "an old page": (
        '<HTML><HEAD><TITLE>Home</TITLE><SCRIPT LANGUAGE="JavaScript">function f(){}</SCRIPT>'
        '</HEAD><BODY onload="f()"><CENTER><H1>My page</H1><A HREF="cats.html">My cats</A>'
        ' <A HREF="boats.html">My boats</A></CENTER></BODY></HTML>'
    ),
    "a gallery": _page(
        "".join(f'<a href="/photo/{n}"><img src="/t/{n}.jpg"></a>' for n in range(60)) + _APP
    ),
    "a shop's list from the server": _page(
        f"<header>{_NAV}</header><ul>"
        + "".join(
            f'<li><a href="/goods/{n}">Rope of {n} metres</a> {n},00 <button>Buy</button></li>'
            for n in range(30)
        )
        + f"</ul>{_FOOTER}",
        _APP,
    ),
    "a list that grows when scrolled": _page(
        f'<main>{ARTICLE}</main><div id="more" class="spinner"></div>{_APP}'
    ),
    "data of a page in its scripts": _page(
        f'<main>{ARTICLE}</main><script type="application/ld+json">{_STATE * 40}</script>'
        f"<script>window.__STATE__={_STATE * 40}</script>"
    ),
    "tracking pixel without scripts": _page(
        f"{ARTICLE}<noscript><img src='https://metrics.example/p.gif'></noscript>{_ANALYTICS}"
    ),
    "an embedded page": _page(
        '<h1>Timetable</h1><iframe src="/timetable.html"></iframe><script src="/size.js"></script>'
    ),
    "manual of a framework": _page(
        f'{ARTICLE}<pre>&lt;div id="app"&gt;&lt;/div&gt;</pre><p>With <code>ng-app</code> and'
        " <code>v-for</code> a list repeats.</p>" + _ANALYTICS
    ),
    "consent by the server": _page(
        "<h1>Before you continue</h1><p>We use cookies. Choose what is set.</p>"
        '<form action="/consent" method="post"><button name="yes">Accept</button>'
        '<button name="no">Refuse</button></form>' + _ANALYTICS
    ),
}

LABELLED_PAGES = (
    *(LabelledPage(name, True, markup) for name, markup in _NEED.items()),
    *(LabelledPage(name, False, markup) for name, markup in _NO_NEED.items()),
)
