// Runs in each frame before any script of the page: the same time and the same random numbers in
// every round, no long waits, nothing that needs a network, and a note of what was tried.
// SEED (a number), NOW (milliseconds) are set around it.
(() => {
  'use strict';
  const real = {
    setTimeout: globalThis.setTimeout.bind(globalThis),
    now: performance.now.bind(performance),
    stringify: JSON.stringify,
    Observer: MutationObserver,
  };
  const refused = Object.create(null);
  const lines = { console: [], errors: [] };
  let changedAt = real.now();
  let shadows = 0;
  const refuse = (what) => { refused[what] = (refused[what] || 0) + 1; };
  const note = (list, text) => {
    if (list.length < LINES) list[list.length] = String(text).slice(0, 500).toWellFormed();
  };

  // -- random numbers: xorshift128+ of 32 bits, seeded by the host
  let a = SEED | 0 || 1, b = 0x9e3779b9;
  const next = () => {
    let t = a; const s = b;
    a = s; t ^= t << 23; t ^= t >>> 17; t ^= s ^ (s >>> 26); b = t;
    return (a + b) >>> 0;
  };
  for (let i = 0; i < 8; i++) next();
  Math.random = function random() { return next() / 4294967296; };
  if (globalThis.Crypto) {
    Crypto.prototype.getRandomValues = function getRandomValues(view) {
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      if (bytes.length > 65536) throw new DOMException('too long', 'QuotaExceededError');
      for (let i = 0; i < bytes.length; i++) bytes[i] = next() >>> 8;
      return view;
    };
    Crypto.prototype.randomUUID = function randomUUID() {
      const hex = Array.from({ length: 32 }, () => (next() >>> 28).toString(16));
      hex[12] = '4'; hex[16] = '89ab'[next() >>> 30];
      return hex.join('').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    };
  }

  // -- time: stands still, but goes on with each timer, and slowly with each look at the clock,
  // so that nobody who waits for it waits in vain
  let time = NOW, looks = 0;
  const look = () => { looks += 1; if (looks % 64 === 0) time += 1; return time; };
  const RealDate = Date;
  const FixedDate = function Date(...given) {
    if (!new.target) return new RealDate(look()).toString();
    return Reflect.construct(RealDate, given.length ? given : [look()], new.target);
  };
  FixedDate.prototype = RealDate.prototype;
  Object.defineProperty(FixedDate, 'length', { value: 7 });
  FixedDate.now = function now() { return look(); };
  FixedDate.parse = RealDate.parse;
  FixedDate.UTC = RealDate.UTC;
  RealDate.prototype.constructor = FixedDate;
  globalThis.Date = FixedDate;

  // -- timers: the first of them wait a tenth of a second at most
  let clamps = CLAMPS;
  const clamped = (name, original) => function (handler, delay, ...rest) {
    const asked = Number(delay) || 0;
    const due = time + asked;
    let wait = asked;
    if (asked > CLAMP_MS && clamps > 0) { clamps -= 1; wait = CLAMP_MS; }
    if (typeof handler !== 'function') return original.call(globalThis, handler, wait, ...rest);
    const run = function () {
      if (due > time) time = due;
      return handler.apply(this, arguments);
    };
    return original.call(globalThis, run, wait, ...rest);
  };
  globalThis.setTimeout = clamped('setTimeout', globalThis.setTimeout);
  const idle = globalThis.requestIdleCallback;
  if (idle) {
    globalThis.requestIdleCallback = function requestIdleCallback(handler) {
      return idle.call(globalThis, handler, { timeout: CLAMP_MS });
    };
  }

  // -- what needs a network of its own, another window or a person
  const failing = (name, what) => {
    if (!(name in globalThis)) return;
    const Refused = function () {
      refuse(what);
      throw new DOMException('there is no network', 'NotSupportedError');
    };
    Refused.prototype = globalThis[name].prototype;
    Object.defineProperty(globalThis, name, { value: Refused, configurable: true, writable: true });
  };
  failing('RTCPeerConnection', 'webrtc');
  failing('webkitRTCPeerConnection', 'webrtc');
  failing('WebTransport', 'webtransport');
  failing('SharedWorker', 'shared_worker');
  if (globalThis.WebSocket) {
    // A page that expects one is told that it broke, as it would be by a bad connection.
    const Real = WebSocket;
    const Closed = class WebSocket extends EventTarget {
      constructor(url) {
        super();
        refuse('websocket');
        Object.assign(this, {
          url: String(url), readyState: 3, bufferedAmount: 0, protocol: '', extensions: '',
          binaryType: 'blob', onopen: null, onmessage: null, onerror: null, onclose: null,
        });
        real.setTimeout(() => {
          for (const kind of ['error', 'close']) {
            const event = kind === 'close' ? new CloseEvent(kind, { code: 1006 }) : new Event(kind);
            this.dispatchEvent(event);
            if (typeof this['on' + kind] === 'function') this['on' + kind](event);
          }
        }, 0);
      }
      send() {}
      close() {}
    };
    for (const [name, value] of [['CONNECTING', 0], ['OPEN', 1], ['CLOSING', 2], ['CLOSED', 3]]) {
      Closed[name] = value; Closed.prototype[name] = value;
    }
    Object.defineProperty(Closed, 'name', { value: Real.name });
    globalThis.WebSocket = Closed;
  }
  if (globalThis.ServiceWorkerContainer) {
    ServiceWorkerContainer.prototype.register = function register() {
      refuse('service_worker');
      return Promise.reject(new DOMException('there is no network', 'SecurityError'));
    };
  }
  Navigator.prototype.sendBeacon = function sendBeacon() { refuse('beacon'); return true; };
  globalThis.open = function open() { refuse('popup'); return null; };
  globalThis.print = function print() { refuse('print'); };
  globalThis.alert = function alert() { refuse('dialog'); };
  globalThis.confirm = function confirm() { refuse('dialog'); return false; };
  globalThis.prompt = function prompt() { refuse('dialog'); return null; };
  if (globalThis.Notification) {
    Notification.requestPermission = function () { refuse('permission'); return Promise.resolve('denied'); };
  }
  if (globalThis.Geolocation) {
    Geolocation.prototype.getCurrentPosition = function (_, failed) {
      refuse('permission');
      if (typeof failed === 'function') real.setTimeout(() => failed({ code: 1, message: 'denied' }), 0);
    };
    Geolocation.prototype.watchPosition = Geolocation.prototype.getCurrentPosition;
  }

  // -- what the page does: changes of its tree, its errors
  const observer = new real.Observer(() => { changedAt = real.now(); });
  const everything = { childList: true, subtree: true, characterData: true, attributes: true };
  const observe = observer.observe.bind(observer);
  const start = () => observe(document, everything);
  start();
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function attachShadow(options) {
    // Open, so that its content can be read; serializable, so that it becomes part of the text.
    const root = attach.call(this, Object.assign({}, options, { mode: 'open', serializable: true }));
    shadows += 1;
    if (shadows < 10000) observe(root, everything);
    changedAt = real.now();
    return root;
  };
  addEventListener('error', (event) => {
    if (event.message) note(lines.errors, event.message + ' (' + event.filename + ':' + event.lineno + ')');
  }, true);
  addEventListener('unhandledrejection', (event) => {
    let text = 'unhandled rejection';
    try { text = String((event.reason && event.reason.stack) || event.reason); } catch { /* theirs */ }
    note(lines.errors, text);
  });
  const complain = console.error;
  console.error = function error(...given) {
    try { note(lines.console, given.map(String).join(' ')); } catch { /* theirs */ }
    return complain.apply(console, given);
  };

  Object.defineProperty(globalThis, '__rendering', {
    value: () => real.stringify({
      quiet_s: (real.now() - changedAt) / 1000, state: document.readyState, refused,
      console: lines.console, errors: lines.errors, shadows,
    }),
  });
})();
