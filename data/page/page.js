/* part: report */
document.documentElement.className = 'js';
addEventListener('DOMContentLoaded', () => {
const list = document.getElementById('list'), body = list.tBodies[0], heads = [...list.tHead.rows[0].cells];
const [find, box, all, told, more, came, stage] = ['find', 'search', 'all', 'told', 'rest', 'came', 'stage'].map(i => document.getElementById(i));
let rows = [...body.rows], most = 200;
const marks = new Map(rows.map(r => [r, new Set(r.dataset.m.split(' '))]));
const words = new Map(rows.map(r => [r, r.textContent.toLowerCase()]));
let asked = [], title = '';
function show() {
  const typed = box.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = [...asked, came.value, stage.value].filter(Boolean);
  let n = 0;
  for (const r of rows) {
    const fits = wanted.every(m => marks.get(r).has(m)) && typed.every(w => words.get(r).includes(w));
    n += fits;
    r.hidden = !fits || n > most;
  }
  more.hidden = n <= most;
  told.textContent = n + ' of ' + rows.length + ' turns' + (title ? ': ' + title : '');
}
function follow() {
  if (!location.hash.startsWith('#f-')) return;
  asked = location.hash.slice(3).split('-');
  title = (document.querySelector('a.f[href="' + location.hash + '"]') || {title: asked.join(', ')}).title;
  box.value = came.value = stage.value = '';
  show();
  find.scrollIntoView();
}
function sort(i, down) {
  const text = r => r.cells[i].textContent.trim(), value = r => /^[-+\d.]+$/.test(text(r)) ? parseFloat(text(r)) : text(r).toLowerCase();
  const keys = new Map(rows.map(r => [r, value(r)])), empty = r => text(r) === '–';
  const words = new Intl.Collator('en', {numeric: true}).compare;
  const less = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : words(a, b);
  const sign = down ? -1 : 1;
  rows.sort((a, b) => empty(a) - empty(b) || sign * less(keys.get(a), keys.get(b)));
  body.append(...rows);
  show();
  heads.forEach((h, j) => j === i ? h.setAttribute('aria-sort', down ? 'descending' : 'ascending') : h.removeAttribute('aria-sort'));
}
heads.forEach((h, i) => {
  const button = document.createElement('button');
  button.append(...h.childNodes);
  button.onclick = () => sort(i, h.getAttribute('aria-sort') === 'ascending');
  h.append(button);
});
box.oninput = came.onchange = stage.onchange = show;
all.onclick = () => { asked = []; title = ''; box.value = came.value = stage.value = ''; show(); };
document.addEventListener('click', e => { if (e.target.closest('a.f')) setTimeout(follow); });
more.onclick = () => { most = rows.length; show(); };
addEventListener('hashchange', follow);
// j and k lead to the next turn of the list and to the one before
let here = null;
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || !['j', 'k'].includes(e.key) || e.target.closest('input, select')) return;
  const shown = rows.filter(r => !r.hidden), at = shown.indexOf(here);
  const next = shown[e.key === 'j' ? at + 1 : Math.max(at, 1) - 1];
  if (!next) return;
  if (here) here.removeAttribute('aria-current');
  here = next;
  here.setAttribute('aria-current', 'true');
  const link = here.cells[0].querySelector('a'), turn = document.getElementById(link.hash.slice(1));
  if (link.pathname !== location.pathname || !turn) return link.focus();
  turn.closest('details').open = true;
  link.click();
});
find.hidden = false;
show();
document.documentElement.className = 'js ready';
follow();
});

/* part: app */
"use strict";
// Text from documents, models and people is only ever put in as text: there is no innerHTML here, and the policy forbids other scripts.
const $ = id => document.getElementById(id);
function el(tag, known, ...inside) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(known || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k in e && !k.startsWith("aria")) e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...inside.filter(x => x !== null && x !== undefined && x !== ""));
  return e;
}
const plural = (n, one, many) => `${n} ${n === 1 ? one : many || one + "s"}`;
let talk = "", busy = false, about = {};

async function api(path, options) {
  const reply = await fetch(path, options);
  if (reply.status === 401) { $("door").open || $("door").showModal(); throw new Error("a token is needed"); }
  if (reply.ok) return reply;
  let said = reply.statusText;
  try { said = (await reply.json()).error.message; } catch { /* no JSON: the status says it */ }
  throw new Error(said || `status ${reply.status}`);
}
const get = async path => (await api(path)).json();
const post = (path, body) => api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

function sure(text, what = "Delete") {
  $("sure-text").textContent = text; $("yes").textContent = what; $("sure").showModal(); $("no").focus();
  return new Promise(done => {
    const end = v => { $("sure").close(); $("yes").onclick = $("no").onclick = $("sure").oncancel = null; done(v); };
    $("yes").onclick = () => end(true); $("no").onclick = () => end(false); $("sure").oncancel = () => end(false);
  });
}

// Documents
function documentLine(d) {
  const facts = [d.pages ? plural(d.pages, "page") : "", plural(d.chunks, "passage"), d.collection && `in “${d.collection}”`].filter(Boolean).join(", ");
  const remove = el("button", { type: "button", className: "small", "aria-label": `delete ${d.name}`, onclick: async () => {
    if (!await sure(`Delete ${d.name}? It will not be found or cited any more. What earlier answers quoted from it stays until their conversation is deleted.`)) return;
    remove.disabled = true;
    try { await api(`api/documents/${encodeURIComponent(d.id)}`, { method: "DELETE" }); } catch (e) { say(e.message); }
    await Promise.all([documents(), kept()]); $("files").focus();
  } }, "delete");
  const open = press("read", () => read(d.id), { "aria-label": `read ${d.name}` });
  return el("li", { className: "row" }, el("span", { className: "grow" }, el("bdi", {}, d.name), el("br"), el("span", { className: "quiet" }, facts)), open, remove);
}
// A document, the wanted stretches of it marked; places count characters of the whole
async function read(id, spans = []) {
  try {
    const d = await get(`api/documents/${encodeURIComponent(id)}`); let section = "", page = null;
    $("book-head").textContent = d.name;
    $("book-text").replaceChildren(...d.parts.flatMap(p => {
      const n = Array.from(p.text).length, marks = spans.map(([a, b]) => [Math.max(0, a - p.start), Math.min(n, b - p.start)]).filter(([a, b]) => a < b);
      const head = [p.section !== section && p.section, p.page && p.page !== page && `page ${p.page}`].filter(Boolean).join(", ");
      section = p.section; page = p.page;
      return [head ? el("h3", {}, head) : "", el("div", { className: "passage", dir: "auto" }, ...passageText({ text: p.text, marks }))];
    }).filter(Boolean));
    $("book").showModal(); ($("book-text").querySelector("mark") || $("book-text")).scrollIntoView({ block: "center" }); $("book-text").focus({ preventScroll: true });
  } catch (e) { say(e.message); }
}
function inDocument(id, marks, length) {  // a passage's id names its document and its place there: document#start-end#start-end
  const [doc, ...places] = id.split("#"), start = places.reduce((sum, p) => sum + parseInt(p, 10), 0);
  return places.length ? press("show in the document", () => read(doc, (marks.length ? marks : [[0, length]]).map(m => m.map(x => x + start)))) : null;
}
async function documents() {
  const all = await get("api/documents");
  $("documents").replaceChildren(...all.map(documentLine)); $("count").textContent = all.length;
  if (!all.length) $("documents").append(el("li", { className: "quiet" }, "none yet"));
}
function upload(file) {
  const most = about.limits ? about.limits.upload_bytes : Infinity, bar = el("progress", { max: 1, value: 0, "aria-label": `sending ${file.name}` }), said = el("span", { className: "quiet" }, "waiting");
  const line = el("li", {}, el("bdi", {}, file.name), " ", said, bar);
  $("uploads").prepend(line);
  const close = () => line.append(el("button", { type: "button", className: "small", onclick: () => line.remove() }, "ok"));
  return new Promise(done => {
    const x = new XMLHttpRequest(), form = new FormData();
    form.append("file", file); form.append("collection", $("into").value.trim());
    x.upload.onprogress = e => { bar.value = e.total ? e.loaded / e.total : 0; said.textContent = `sent: ${Math.round(100 * bar.value)} %`; };
    x.upload.onload = () => { bar.removeAttribute("value"); said.textContent = "reading"; };
    x.onloadend = () => {
      bar.remove();
      let r = {};
      try { r = JSON.parse(x.responseText); } catch { /* nothing came */ }
      if (x.status === 200) {
        said.textContent = `${r.status} in ${r.seconds.toFixed(1)} s` + (r.notes.length ? `; ${r.notes.join("; ")}` : "");
        setTimeout(() => line.remove(), 8000);
      } else { said.className = "bad"; said.textContent = `refused: ${r.error ? r.error.message : "no reply"}`; close(); }
      done();
    };
    if (file.size > most) { bar.remove(); said.className = "bad"; said.textContent = `refused: larger than ${most / 1e6} MB`; close(); done(); return; }
    x.open("POST", "api/upload"); x.send(form);
  });
}
async function uploadAll(files) { for (const f of files) { await upload(f); await documents(); } state(); }

// A turn
function slicer(text) { const all = Array.from(text); return (a, b) => all.slice(a, b).join(""); }  // offsets count characters, strings UTF-16 units
function passageText(c) {
  const out = [], part = slicer(c.text); let at = 0;
  for (const [a, b] of c.marks) { if (a < at) continue; out.push(part(at, a), el("mark", {}, part(a, b))); at = b; }
  return [...out, part(at)];
}
const placeOf = c => [c.document, c.section, c.last_page ? `pages ${c.page}-${c.last_page}` : c.page ? `page ${c.page}` : ""].filter(Boolean).join(", ");
function sources(reply, key, marks) {
  const shown = {};
  const list = el("ul", { className: "plain sources", "aria-label": "Sources" }, ...reply.citations.map(c => {
    const passage = el("div", { className: "passage", id: `${key}-${c.n}`, hidden: true, tabIndex: -1, dir: "auto" }, ...passageText(c));
    const button = el("button", { type: "button", className: "small", "aria-expanded": "false", "aria-controls": passage.id, onclick: () => open() },
      `[${c.n}] `, el("bdi", {}, placeOf(c)));
    const open = (always = false) => {
      passage.hidden = always ? false : !passage.hidden;
      button.setAttribute("aria-expanded", String(!passage.hidden));
      if (!passage.hidden) { (passage.querySelector("mark") || passage).scrollIntoView({ block: "nearest" }); if (always) passage.focus(); }
    };
    shown[c.n] = () => open(true);
    return el("li", {}, el("div", { className: "row" }, button, marks ? marks.toggle(c.passage) : null, inDocument(c.passage, c.marks, Array.from(c.text).length)), passage);
  }));
  return [list, shown];
}
const doubt = r => r.doubt ? el("p", { className: "box warn" }, r.doubt) : null;
function answer(reply, shown) {
  const out = el("div", { className: "answer", dir: "auto" }), part = slicer(reply.answer); let at = 0;
  for (const c of reply.claims) {
    out.append(part(at, c.start));
    const text = part(c.start, c.end);
    out.append(c.supported ? (at || reply.cited_by !== "copied" ? text : el("strong", {}, text)) : el("span", { className: "unsaid" }, text));
    for (const n of c.cites) out.append(el("button", { type: "button", className: "small cite", "aria-label": `source ${n}`, onclick: shown[n] }, `[${n}]`));
    if (!c.supported) out.append(el("span", { className: "flag" }, ` (${c.problem})`));
    at = c.end;
  }
  out.append(part(at));
  return out;
}
const score = g => g.score === null ? "" : (Math.round(100 * g.score) / 100 + 0).toFixed(2) + (g.threshold === null ? "" : ` (limit ${g.threshold})`);
const told = p => [p.kept ? "kept" : "thrown away", p.grade ? `${p.grade.label} ${score(p.grade)}` : ""].filter(Boolean).join(": ");
function grades(reply) {
  if (!reply.grades.length) return null;
  const rows = reply.grades.map(g => el("tr", {}, el("td", {}, g.kept ? "kept" : "left out"), el("td", {}, g.label), el("td", {}, score(g)), el("td", {}, el("bdi", {}, placeOf(g)))));
  const head = el("tr", {}, ...["", "grade", "score", "passage"].map(h => h ? el("th", { scope: "col" }, h) : el("td", {})));
  const kept = reply.grades.filter(g => g.kept).length;
  return el("details", { className: "more" }, el("summary", {}, `Grades: ${kept} of ${reply.grades.length} passages kept`),
    el("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Grades" }, el("table", {}, head, ...rows)));
}
// What a person says of a turn
const VERDICTS = [["right", "right", "this answer is right"], ["wrong", "wrong", "this answer is wrong"],
  ["refuse", "should have refused", "the documents do not answer this: it should have refused"], ["ask", "should have asked back", "the question is not clear: it should have asked back"]];
const pressed = (b, on) => b.setAttribute("aria-pressed", String(on));
const tone = came => came === "right" ? "good" : came.startsWith("Failed") ? "bad" : "quiet";
const IN_WORDS = { question: "Asked", rewrite: "Searched for", retrieve: "Passages", grade: "Graded", check: "Checked", outcome: "It ended" };
const steps = words => el("ol", {}, ...words.split("\n").map(line => {
  const [, head, text] = /^(.{10,}?) (.*)$/.exec(line) || ["", "", line];
  return el("li", { dir: "auto" }, `${IN_WORDS[head.trim()] || head.trim().replaceAll("_", " ")}: ${text}`);
}));
const press = (text, onclick, more = {}) => el("button", { type: "button", className: "small", onclick, ...more }, text);
class Marks {  // the marks of one turn, and the panel that says why it came out as it did
  constructor(reply, about) {
    this.path = `api/conversations/${reply.conversation_id}/${reply.turn}`; this.toggles = []; this.about = null;
    this.said = el("span", { role: "status", className: "came grow" }); this.panel = el("div", { className: "about", hidden: true });
    this.verdicts = VERDICTS.map(([value, text, name]) => press(text, () => this.mark({ verdict: this.about?.marks.verdict === value ? "" : value }), { "aria-pressed": "false", "aria-label": name }));
    this.why = press("Why?", () => this.open(), { "aria-expanded": "false" });
    if (about) this.update(about);
  }
  has(id) { return (this.about?.marks.passages || []).some(p => id === p.document_id || id.startsWith(`${p.document_id}#`)); }
  toggle(id) {
    const b = press("this passage answers it", () => this.mark({ passage: id, answers: !this.has(id) }));
    this.toggles.push([b, id]); pressed(b, this.has(id));
    return b;
  }
  update(about) {
    this.about = about; this.said.textContent = about.came; this.said.className = `came grow ${tone(about.came)}`;
    this.verdicts.forEach((b, n) => pressed(b, VERDICTS[n][0] === about.marks.verdict));
    this.toggles = this.toggles.filter(([b]) => b.isConnected || !this.panel.isConnected);
    for (const [b, id] of this.toggles) pressed(b, this.has(id));
    this.marked?.replaceChildren(...this.markedLines());
  }
  async mark(what) {
    try { this.update(await (await post(`${this.path}/mark`, what)).json()); grid(); } catch (e) { this.said.textContent = e.message; this.said.className = "came grow bad"; }
  }
  async open() {
    if (this.panel.hidden && !this.marked) {
      try { if (!this.about) this.update(await get(this.path)); } catch (e) { this.said.textContent = e.message; return; }
      this.panel.replaceChildren(...this.inside());
    }
    this.panel.hidden = !this.panel.hidden; this.why.setAttribute("aria-expanded", String(!this.panel.hidden));
  }
  passage(p, told = "") {
    const text = el("div", { className: "passage", hidden: true, dir: "auto" }, p.text), show = press([placeOf(p), told].filter(Boolean).join(": "), () => {
      text.hidden = !text.hidden; show.setAttribute("aria-expanded", String(!text.hidden));
    }, { "aria-expanded": "false" });
    return el("li", {}, el("div", { className: "row" }, show, this.toggle(p.passage), inDocument(p.passage, [], Array.from(p.text).length)), text);
  }
  markedLines() {
    return this.about.marks.passages.map(p => el("li", { className: "row" }, el("span", { className: "grow" }, el("bdi", {}, p.title || p.source || "a passage"), p.lost ? " (not in the library any more)" : ""),
      press("take back", () => this.mark({ passage: p.document_id, answers: false }))));
  }
  field(name, value, most, save, label = "save") {
    const box = el("textarea", { rows: 2, maxLength: most, value, "aria-label": name });
    return el("div", {}, el("span", { className: "quiet" }, name), el("div", { className: "row" }, box, press(label, () => save(box.value), { "aria-label": `${label}: ${name}` })));
  }
  inside() {
    const a = this.about, list = (name, ...items) => el("ul", { className: "plain", "aria-label": name }, ...items), found = list("Passages of the library");
    this.marked = list("Marked passages", ...this.markedLines());
    const lookup = async words => {
      try { found.replaceChildren(...(await get(`api/search?q=${encodeURIComponent(words)}`)).map(p => this.passage(p))); } catch (e) { found.replaceChildren(el("li", { className: "bad" }, e.message)); }
    };
    return [el("h3", {}, "Why this answer"), steps(a.words),
      press("every step", () => { $("why-page").src = `${this.path}/why`; $("why").showModal(); }),
      el("h3", {}, "Passages that were found"), list("Passages that were found", ...a.passages.map(p => this.passage(p, told(p)))),
      el("h3", {}, "What answers it"), this.marked, this.field("search the library for the passage", "", 2000, lookup, "search"), found,
      this.field("a better answer", a.marks.answer, 8000, v => this.mark({ answer: v })), this.field("a note", a.marks.note, 2000, v => this.mark({ note: v }))];
  }
}
function foot(reply, marks) {
  const claims = reply.claims || [], good = claims.filter(c => c.supported).length;
  const counts = claims.length && reply.cited_by !== "copied" ? `${good} of ${plural(claims.length, "sentence")} supported by ${claims.length === 1 ? "its source" : "their sources"}` : "";
  const facts = [reply.system, `${reply.seconds.toFixed(1)} s`, plural(reply.tokens.in + reply.tokens.out, "token"), counts].filter(Boolean).join(" · ");
  return el("div", { className: "below" }, el("div", { className: "foot" }, marks.why, ...marks.verdicts, marks.said), el("p", { className: "quiet facts" }, facts), marks.panel);
}
function confidence(reply) {
  if (reply.confidence === null) return "";
  const two = x => x.toFixed(2), stated = ` Coverage ${two(reply.coverage)}, density ${two(reply.density)}, confidence ${two(reply.confidence)}, their product.`;
  return reply.chance === null ? stated : `${stated} Chance of being faithful ${two(reply.chance)} (${reply.licence}).`;
}
function ending(reply, key, about) {
  const marks = new Marks(reply, about), end = foot(reply, marks);
  if (reply.outcome === "error") return [fault({ message: `broke in ${reply.error.node || "the graph"}: ${reply.error.type}: ${reply.error.message}`, trajectory_id: reply.trajectory_id }), end];
  if (reply.outcome !== "answered") return [el("div", { className: "box warn" }, el("strong", {}, "No answer: "), reply.why || reply.reason.replaceAll("_", " "),
    el("div", { className: "quiet" }, reply.answer)), grades(reply), end];
  const [list, shown] = sources(reply, key, marks);
  const how = `How it is cited: ${reply.cited_how}.`;
  const left = reply.unsupported.length ? el("div", { className: "box bad" }, `${plural(reply.unsupported.length, "sentence")} of ${reply.claims.length} without support: do not rely on ${reply.unsupported.length === 1 ? "it" : "them"}.`) : null;
  return [doubt(reply), answer(reply, shown), left, list, el("p", { className: "quiet sources" }, how, confidence(reply)), grades(reply), end];
}
const fault = e => el("div", { className: "box bad", role: "alert" }, el("strong", {}, "This turn broke. "), e.message, e.trajectory_id ? el("div", { className: "quiet" }, `on record as ${e.trajectory_id}`) : null);
function turn(question, inside) {
  const t = el("article", { className: "turn" }, el("h2", { className: "question", dir: "auto" }, question), ...inside);
  $("log").append(t); t.scrollIntoView({ block: "end" });
  return t;
}

// Asking
async function* events(body) {
  const read = body.pipeThrough(new TextDecoderStream()).getReader(); let rest = "";
  for (;;) {
    const { done, value } = await read.read();
    if (done) return;
    const parts = (rest + value).split("\n\n"); rest = parts.pop();
    for (const p of parts) {
      const kind = /^event: (.*)$/m.exec(p), data = /^data: (.*)$/m.exec(p);
      if (kind && data) yield [kind[1], JSON.parse(data[1])];
    }
  }
}
async function ask(question) {
  if (busy) return;
  busy = true; $("send").disabled = true; $("log").querySelector(".hello")?.remove();
  const loads = !(about.models || []).some(m => m.loaded), steps = el("ol", {}), draft = el("div", { className: "draft quiet", hidden: true });
  const work = el("div", { className: "work", "aria-busy": "true" }, el("span", { className: "quiet" }, loads ? "Loading the models, which takes a while before the first answer:" : "Working:"), steps, draft), t = turn(question, [work]);
  try {
    const reply = await post("api/query", { question, conversation_id: talk, system: $("system").value, collection: $("collection").value, stream: true });
    let last = null;
    for await (const [kind, data] of events(reply.body)) {
      if (kind === "step") {
        draft.hidden = true;
        const told = data.told.map(x => x.join(": ")).join("; ");
        steps.append(el("li", {}, `${data.node.replaceAll("_", " ")}, ${data.seconds.toFixed(1)} s`, told ? el("div", { className: "quiet" }, told) : null));
      } else if (kind === "writing") { draft.hidden = false; draft.textContent = `writing, not yet checked: ${data.text}`; }
      else last = [kind, data];
      t.scrollIntoView({ block: "end" });
    }
    if (!last) throw new Error("the connection ended before the reply; the turn is on record, and is there when the page is opened again");
    if (last[0] === "reply") { at(last[1].conversation_id); work.replaceWith(...ending(last[1], `t${Date.now()}`).filter(Boolean)); }
    else { at(last[1].conversation_id || talk); work.replaceWith(fault(last[1])); }
    $("question").value = "";
  } catch (e) { work.replaceWith(fault({ message: e.message })); }
  busy = false; $("send").disabled = false; t.scrollIntoView({ block: "nearest" });
  await Promise.all([talks(), state()]);
}

// Conversations
function at(id) { talk = id; history.replaceState(null, "", id ? `#${id}` : location.pathname); }  // so that a reload finds it again
const hello = () => $("log").replaceChildren(el("p", { className: "hello" }, "Add documents, then ask a question. Each sentence of an answer leads to the sentence that supports it, or says that there is none."));
async function show(id) {
  const { turns } = await get(`api/conversations/${id}`);
  at(id); $("log").replaceChildren();
  for (const line of turns) turn(line.question, ending(line.reply, `t${id}${line.turn}`, line.about).filter(Boolean));
  await talks();
}
async function talks() {
  const words = $("find").value.toLowerCase().split(/\s+/), all = (await get("api/conversations")).filter(c => words.every(w => c.title.toLowerCase().includes(w)));
  $("talks").replaceChildren(...all.map(c => el("li", {},
    el("button", { type: "button", className: "talk small", "aria-current": String(c.id === talk), onclick: () => show(c.id).catch(e => say(e.message)) }, el("bdi", {}, c.title), " ", el("span", { className: "quiet" }, plural(c.turns, "turn"))),
    c.id !== talk ? null : el("div", { className: "row" },
      el("a", { className: "button small", href: `api/conversations/${c.id}`, download: `conversation-${c.id}.json` }, "as JSON"),
      el("button", { type: "button", className: "small", onclick: async () => {
        if (!await sure(`Delete this conversation (${plural(c.turns, "turn")}) from this computer?`)) return;
        try { await api(`api/conversations/${c.id}`, { method: "DELETE" }); fresh(); } catch (e) { say(e.message); }
      } }, "delete")))));
}
function fresh() { at(""); hello(); talks(); $("question").focus(); }

const lines = async path => (await (await api(path)).text()).split("\n").length - 1;
async function grid() { const n = await lines("api/marks"); $("marked").textContent = n; $("marks").hidden = !n; }

// A test set, drawn from the documents
let seed = 0;
async function kept() { const n = await lines("api/questions"); $("kept").textContent = n; $("set").hidden = !n; }
function question(q, seed) {
  const asked = q.input.filter(u => u.speaker === "user").map(u => u.text).join(" "), said = el("span", { className: "bad", role: "status" });
  const put = async keep => {
    try { await post("api/questions", { task_id: q.task_id, seed, keep }); pressed(take, keep); said.textContent = ""; } catch (e) { said.textContent = e.message; }
    await kept();
  };
  const taken = () => take.getAttribute("aria-pressed") === "true", take = press("accept", () => put(!taken()), { "aria-pressed": "false", "aria-label": `accept: ${asked}` });
  const away = press("throw away", async () => { if (taken()) await put(false); line.remove(); $("draw").focus(); }, { "aria-label": `throw away: ${asked}` });
  const line = el("li", { dir: "auto" }, el("span", { className: "quiet" }, q.drawn.kind, ": "), el("bdi", {}, asked),
    el("div", { className: "quiet" }, q.drawn.kind === "unanswerable" ? "(given passages that do not answer it)" : q.drawn.answer), el("div", { className: "row" }, take, away, said));
  return line;
}
async function draw() {
  const mine = seed++, all = await get(`api/questions/drawn?seed=${mine}`);
  $("drawn").replaceChildren(...all.map(q => question(q, mine)));
  if (!all.length) $("drawn").append(el("li", { className: "quiet" }, "no sentence or heading to ask about"));
}
const say = text => { $("state").textContent = text; };
async function state() {
  about = await get("api/status");
  const i = about.index, memory = about.memory.now_mb ? `, ${(about.memory.now_mb / 1000).toFixed(1)} GB` : "";
  say(`${plural(i.documents, "document")}, ${plural(i.passages, "passage")}${memory}, profile ${about.profile}`);
  const names = i.collections, asked = $("collection").value;
  $("collections").replaceChildren(...names.map(value => el("option", { value })));
  $("collection").replaceChildren(el("option", { value: "" }, "all documents"), ...names.map(value => el("option", { value, selected: value === asked }, `only “${value}”`)));
  $("where").hidden = names.length < 2;
  $("stand-ins").textContent = about.stand_ins.length ? `Profile ${about.profile}: ${about.stand_ins.join("; ")}.` : "";
}
async function begin() {
  await state();
  $("system").replaceChildren(...about.systems.map(s => el("option", { value: s, selected: s === about.system }, s)));
  const narrow = matchMedia("(max-width: 52rem)").matches;
  if (narrow) $("talks-fold").open = false;
  hello(); await Promise.all([documents(), talks(), grid(), kept()]);
  if (narrow && about.index.documents) $("documents-fold").open = false;  // so that the answer is at the top
  if (/^#[0-9a-f]{16}$/.test(location.hash)) await show(location.hash.slice(1)).catch(() => at(""));
}
$("files").addEventListener("change", e => { const files = [...e.target.files]; e.target.value = ""; uploadAll(files).catch(e => say(e.message)); });
for (const kind of ["dragover", "dragleave", "drop"]) $("drop").addEventListener(kind, e => {
  e.preventDefault(); $("drop").classList.toggle("over", kind === "dragover");
  if (kind === "drop") uploadAll([...e.dataTransfer.files]).catch(e => say(e.message));
});
$("ask").addEventListener("submit", e => { e.preventDefault(); const q = $("question").value.trim(); if (q) ask(q); });
$("question").addEventListener("keydown", e => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("ask").requestSubmit(); } });
$("find").addEventListener("input", () => talks().catch(e => say(e.message)));
$("fresh").addEventListener("click", fresh);
$("draw").addEventListener("click", () => draw().catch(e => $("drawn").replaceChildren(el("li", { className: "bad" }, e.message))));
$("why-close").addEventListener("click", () => $("why").close());
$("book-close").addEventListener("click", () => $("book").close());
$("why").addEventListener("close", () => { $("why-page").removeAttribute("src"); });
$("door-form").addEventListener("submit", async e => {
  e.preventDefault();
  const reply = await fetch("api/token", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: $("token").value }) });
  if (reply.ok) { $("token").value = ""; $("door").close(); begin().catch(e => say(e.message)); } else $("door-said").textContent = "That is not the token.";
});
begin().catch(e => say(e.message));
