// Reads the document in a world of its own, whose prototypes the page has not changed.
// MOST (characters), FRAMES (number) are set around it.
(() => {
  'use strict';
  const shadows = (node, found) => {
    const walker = node.ownerDocument
      ? node.ownerDocument.createTreeWalker(node, NodeFilter.SHOW_ELEMENT)
      : node.createTreeWalker(node, NodeFilter.SHOW_ELEMENT);
    for (let each = walker.currentNode; each; each = walker.nextNode()) {
      const root = each.shadowRoot;
      if (root && found.length < 10000) { found.push(root); shadows(root, found); }
    }
    return found;
  };
  const read = (page) => {
    const top = page.documentElement;
    if (!top) return '';
    // They are what browsers without scripts show, and here scripts ran.
    for (const each of page.querySelectorAll('noscript')) each.remove();
    const type = page.doctype ? '<!DOCTYPE ' + page.doctype.name + '>\n' : '';
    const open = top.cloneNode(false).outerHTML;
    const end = open.lastIndexOf('</');
    const inner = top.getHTML({ serializableShadowRoots: true, shadowRoots: shadows(page, []) });
    return (type + open.slice(0, end) + inner + open.slice(end)).toWellFormed();
  };
  const frames = [];
  let left = FRAMES;
  const visit = (page) => {
    for (const frame of page.querySelectorAll('iframe, frame')) {
      let inner = null;
      try { inner = frame.contentDocument; } catch { /* of another origin */ }
      if (!inner || left <= 0 || !inner.body || !inner.body.hasChildNodes()) continue;
      left -= 1;
      frames.push([String(inner.URL).slice(0, 4096), read(inner)]);
      visit(inner);
    }
  };
  visit(document);
  const html = read(document);
  const whole = html.length + frames.reduce((sum, each) => sum + each[1].length, 0);
  return {
    url: String(document.URL).slice(0, 65536),
    title: String(document.title).slice(0, 2000).toWellFormed(),
    length: whole, html: whole > MOST ? '' : html, frames: whole > MOST ? [] : frames,
  };
})()
