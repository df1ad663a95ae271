"""Replies that a model may write, each with what it states: made from templates, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple


class Reply(NamedTuple):
    "A reply and the reading that is right."

    kind: str
    text: str
    label: str | float | None  # what it states; None: nothing that may be read
    field: str = ""  # of a judge


def named(kind: str, label: str | float | None, *texts: str) -> list[Reply]:
    "Texts of one label."
    return [Reply(kind, text, label) for text in texts]


def judged(
    kind: str, field: str, label: str | float | None, *texts: str
) -> list[Reply]:
    "Texts of one label of a judge's field."
    return [Reply(kind, text, label, field) for text in texts]


def both(kind: str, *templates: str) -> list[Reply]:
    "Templates with yes in the place of {w}, and with no."
    words = [
        (w, label)
        for label in ("yes", "no")
        for w in (label, label.title(), label.upper())
    ]
    return [
        Reply(kind, t.replace("{w}", w), label) for t in templates for w, label in words
    ]


def distinct(replies: Iterable[Reply]) -> list[Reply]:
    "Each text once for each field, as it was labelled first."
    found: dict[tuple[str, str], Reply] = {}
    for reply in replies:
        found.setdefault((reply.field, reply.text), reply)
    return list(found.values())


# Texts stand side by side: one a line they would be eight hundred lines.
# fmt: off
def worded_replies() -> list[Reply]:
    "Replies with a word: alone, with a reason, behind a label, after some reasoning."
    out = []
    out += both(
        "a word", "{w}", "{w}.", " {w}\n", "**{w}**", "*{w}*", "`{w}`", '"{w}"', "'{w}'", "({w})",
        "[{w}]", "[[{w}]]", "{w}!", "> {w}", "- {w}", "* {w}", "# {w}", "\n\n{w}", "**{w}.**",
        "__{w}__", "{w}<|im_end|>", "{w}</s>", "<b>{w}</b>", "~~~\n{w}\n~~~", "```\n{w}\n```",
        "<answer>{w}</answer>", "\u201c{w}\u201d", "\u2192 {w}", "\u2705 {w}", "{w}\u3002",
        "1. {w}", "{w} \U0001f600", "\\boxed{{w}}", "$\\boxed{\\text{{w}}}$",
    )
    for w, label in (
        ("true", "yes"), ("True", "yes"), ("false", "no"), ("False", "no"), ("1", "yes"),
        ("0", "no"),
    ):
        out += named("a word", label, w, f"{w} ", f"**{w}**", f'"{w}"', f"\n{w}\n")
    reasons = (
        "the fee stands in document 2.", "it says so.", "the passage names the date.",
        "I found it in the first document.", "there is no doubt.", "nothing is missing.",
        "the documents do not contradict it.", "this is clear.", "that part is fine.",
        "they agree.", "it is not about the museum.", "the answer is not in the text.",
    )
    for r, sep in product(
        reasons,
        (
            ", because ", ", since ", " - ", " \u2013 ", ": ", ". ", ".\n\n", "; ", ", ", "\n",
            ".\nReasoning: ", ". Explanation: ",
        ),
    ):
        begins = sep[0] in ".\n" and sep[-1] in " \n"
        reason = r[0].upper() + r[1:] if begins else r
        out += named("a word and a reason", "yes", f"Yes{sep}{reason}")
        out += named("a word and a reason", "no", f"No{sep}{reason}")
    out += both(
        "a label", "Answer: {w}", "Verdict: {w}", "**Answer:** {w}", "**Verdict**: {w}",
        "Final answer: {w}", "Final Answer: **{w}**", "The answer is {w}.", "The answer is: {w}",
        "My answer is {w}.", "Answer - {w}", "answer = {w}", "Relevant: {w}", "Grounded: {w}",
        "Supported: {w}", "Is it relevant? {w}", "Is it supported: {w}", "Verdict: {w}.",
        "Label: {w}", "Grade: {w}", "Decision: {w}", "Judgment: {w}", "Relevance: {w}",
        "Conclusion: {w}", "Answer:\n{w}", "### Answer\n{w}", "The verdict is {w}.",
        "So the answer is {w}.", "Therefore, {w}.", "I would say {w}.", "I'd say {w}.",
        'Answer: "{w}"', "Answer: [{w}]", "A: {w}", "Assistant: {w}", "assistant\n\n{w}",
        "<|assistant|>\n{w}", "Sure! {w}", "Sure, here is my answer: {w}", "Of course. {w}.",
        "Response: {w}", "Output: {w}", "Result: {w}", "Binary score: {w}", "binary_score: {w}",
        "is_relevant: {w}", "Answerable: {w}", "Passes: {w}",
    )
    heads = (
        "The document talks about fees.",
        "Let me check. The passage names the ferry and its price.",
        "Document 1 is about bees. Document 2 names the fee.",
        "Step 1: read the documents. Step 2: compare.", "The question asks for the price.",
        "Reasoning: the date is in line 2.",
        "The first document does not name it, the second does.",
        "The text has no date, but names the year.",
    )
    for head, space in product(heads, (" ", "\n")):
        out += both(
            "reasoning, then a verdict", f"{head}{space}Verdict: {{w}}",
            f"{head}{space}Answer: {{w}}.", f"{head}{space}So the answer is {{w}}.",
            f"{head}{space}Final answer: **{{w}}**",
        )
    return out


def keyed_replies() -> list[Reply]:
    "Replies in JSON, whole and cut off, and after thinking."
    out = []

    def as_json(value):
        return value.replace("'", '"') if value[0] == "'" else value.lower()

    for key, (v, label) in product(
        (
            "score", "binary_score", "relevant", "grounded", "supported", "verdict", "answer",
            "is_relevant", "label", "grade",
        ),
        (
            ('"yes"', "yes"), ('"no"', "no"), ("true", "yes"), ("false", "no"), ('"Yes"', "yes"),
            ("1", "yes"), ("0", "no"), ('"NO."', "no"),
        ),
    ):
        out += named(
            "JSON", label, f'{{"{key}": {v}}}', f'```json\n{{"{key}": {v}}}\n```',
            f'Here is my verdict: {{"{key}": {v}}}',
        )
    for v, label in (("'yes'", "yes"), ("'no'", "no"), ("True", "yes"), ("False", "no")):
        out += named(
            "JSON", label, f"{{'score': {v}}}", f"{{'reason': 'no doubt', 'score': {v}}}",
            f'{{"reasoning": "there is no date, yes, but a year", "score": {as_json(v)}}}',
            f"{{'result': {{'relevant': {v}}}}}", f"{{\n  'relevant': {v},\n  'why': 'it is'\n}}",
        )
    out += named(
        "JSON that says nothing", None, '{"relevant": "yes", "grounded": "no"}',
        '{"colour": "yes"}', '{"score": 7}', '{"score": null}', '{"score": "partly"}', "{}",
        '{"yes": "no"}', '{"relevant": ["yes", "no"]}', '{"score": 0.9}', '{"score": "1/5"}',
        '{"relevant": "yes"} {"relevant": "no"}', '{"unsupported": "yes"}',
        '{"not_relevant": true}', '{"hallucination": false}', '{"irrelevant": true}',
        '{"score": 1, "score_max": 5}', '{"relevant": "yes or no"}', '{"relevant": "not yes"}',
        '{"score": 10}', '{"score": -1}',
    )
    for key, v in product(("score", "binary_score", "relevant"), ("yes", "no")):
        whole = f'{{"{key}": "{v}"}}'
        out += named("JSON, cut off", v, *(whole[:n] for n in range(3, len(whole))))
    for v, o in (("yes", "no"), ("no", "yes")):
        out += named(
            "thinking", v, f"<think>Is it relevant? {o.title()}... wait, {v}.</think>\n{v.title()}",
            f"<think>\n{o.title()}.\n</think>\n\nAnswer: {v}", f"<think></think>{v}",
            f"<thinking>{o}</thinking> {v}.",
            f"<think>\nOkay, the answer is {o}? Let me see.\n</think>\n\n**{v.title()}**",
            f"The answer is {o}, or so I thought.</think>{v.title()}.",
        )
        out += named(
            "thinking, cut off", None, f"<think>Is it relevant? {v.title()}",
            f"<think>\n{v.title()}, ", f"<think>{v}", f"<think>The answer is {v}. But wait",
        )
    return out


def implied_replies() -> list[Reply]:
    "Replies from which a reader infers a verdict; one form of sentence is read, the others may not be."
    out = []
    out += named("a statement", "yes", "The document is relevant.", "All claims are supported.")
    out += named("a statement", "no", "The answer is not supported by the documents.")
    out += named(
        "a statement", None, "The document isn't relevant to the question.", "Relevant.",
        "None of the claims are supported.", "Nothing in the answer is grounded.", "Not relevant.",
        "The answer is unsupported.", "Neither claim is supported by the", "GROUNDED",
        "I don't think it is supported.", "It is doubtful that the answer is supported.",
        "The answer is supported, except for the date.", "Is the answer supported?",
    )
    out += named(
        "a negation that is none", None, "No problem, the answer is supported by the documents.",
        "No contradictions were found, so it passes.", "No unsupported claims.",
        "There is no doubt that the answer is supported.", "No issues: the answer is grounded.",
        "No hallucination was found, the answer is supported.", "No claim lacks support.",
        "It is not true that nothing is supported.", "No errors. The answer is supported.",
        "No need to retry, the answer is supported.", "No, wait, yes.",
    )
    out += named(
        "a yes that is none", None, "It would be wrong to say yes.", "I can't say yes.",
        "The user says yes, but the documents say otherwise.", "I refuse to say yes.",
        "Saying that the answer is supported would be a lie.", "Yes-men said so.",
    )
    return out


def unstated_replies() -> list[Reply]:
    "Replies that say neither, hedge, count on another scale or speak another language; and cut ones."
    out = []
    out += named(
        "neither", None, "not yes", "not no", "yes or no", "Yes or no?", "yes/no", "Yes and no.",
        "yes, no", "no, yes", "Both yes and no apply here", "yes & no", "Yes. No.", "Yes? No?",
        "Is it? Yes? No?", "yes|no", "Yes, and no.", "no or yes",
        "Yes or no? Hard to say; no and yes.", "Reply with one word: yes or no.",
        "Answer yes or no:", "Verdict: yes or no", "Verdict: yes/no", "Verdict: yes\nVerdict: no",
        "Answer: yes. Answer: no.", "Yes.\nVerdict: no", "No.\nAnswer: yes",
        "Relevant: yes\nGrounded: no", "Answer: not yes", "The answer is not yes.",
        "The answer isn't no.", "I would not say no.", "I would not say yes.",
        "I wouldn't say yes.", "neither yes nor no", "The answer is neither yes nor no.", "yes no",
        "No yes", "Yes... no... maybe", "Sometimes yes, sometimes no.", "Partly yes, partly no",
        "Yes for the first, no for the second.", "Document 1: yes\nDocument 2: no", "1. Yes\n2. No",
        "Yes (but also no)", "Is it relevant: yes, is it grounded: no", "yes? no.",
        "If it is about ferries, yes, else no.", "It could be yes or it could be no.",
    )
    out += named(
        "a hedge", None, "", " ", "...", "?", "maybe", "Perhaps.", "It depends.", "Partially",
        "Partially supported.", "Partly.", "I cannot tell", "I can't determine this.", "Unclear",
        "Not sure.", "N/A", "n/a", "None", "none", "null", "Possibly.", "Unknown", "I don't know",
        "I_DONT_KNOW", "The answer is partially supported.", "Some claims are supported.",
        "Most of it is supported.", "Half of the claims are supported.",
        "The question is whether the answer is supported.", "If the answer is supported, say yes.",
        "It may be relevant.", "It might be supported.", "The document could be relevant.",
        "Is the answer supported?", "The answer would be supported if the date were there.",
        "Not all claims are supported.", "The answer is supported, except for the date.",
        "The document is relevant but does not name the fee.", "Only the first claim is supported.",
        "The document is somewhat relevant.", "To be supported, an answer needs a source.",
        "I need to check if it is supported.", "We must see which claims are supported.",
        "An answer is supported if its claims are in the documents.",
        "Based on the documents, the answer is", "The documents", "Let me", "I think",
        "Looking at the documents, I", "Given the provided documents, it", "Yes?", "No?", "yes...?",
        "Supported?", "Relevant or not?", "unsure", "Hm.", "OK", "Sure", "Certainly", "Correct",
        "Noted.", "Now,", "Nobody knows.", "North", "yesterday", "Yesterday it rained.", "nope?",
        "eyes", "noon", "know", "nowhere", "not",
    )
    out += named(
        "no answer, but a no or yes", None, "No information about the fee is given.",
        "No one knows.", "No contradictions", "No document names the fee",
        "No. 5 of the list names the fee.", "No 7 is the ferry.", "No other document names it.",
        "no problem", "No idea.", "No evidence", "No data was", "no such", "no more than 12 crowns",
        "The document says no one may enter.", "There is no", "The user asked for a yes.",
        "The agent said yes to the plan.", 'The word "yes" stands in the text.',
        'The document says "no" to cars.', "The ferry has no deck.", "Answer no longer needed",
        "The answer no longer applies.", "The score no one knows", "the answer yes men give",
        "Verdict: no contradictions found", "Answer: no information",
        "Answer: No contradictions, so it holds.", "Verdict: not applicable", "Verdict: none",
        "Answer: nothing", "Answer: note that", "Relevant: no idea", "Grounded: no way to tell",
        "Answer: yesterday", "Verdict: no. 5",
    )
    for n, of in product(range(6), ("/5", " / 5", " out of 5", " of 5", "/10", " out of 10")):
        out += named(
            "another scale", None, f"{n}{of}", f"Score: {n}{of}", f"Relevance score: {n}{of}."
        )
    numbers = (2, 3, 7, 10, "0.8", "1.5", "85%", "100%", "1%", "0.1", "1-5", "1 to 5")
    out += named("another scale", None, *(f"{n}" for n in (2, 3, 7, 10, 85, -1)))
    out += named("another scale", None, *(f"Score: {n}" for n in numbers))
    out += named(
        "another scale", None, "The score is 7", "4 stars", "1 star", "0 stars", "1st", "10%", "1.",
        "1)", "0.0", "1.0 of 5.0", "Score: 1 (out of 5)", "Score: 1 on a scale from 1 to 5",
        "1 (on a scale of 1-5)", "On a scale of 1 to 5: 1", "Rating: 1", "1 document",
        "1 claim is supported", "0 claims are supported out of", "1 of the 3 claims", "1, 2 and 3",
        "0-1", "1 or 0", "0 or 1", "1/0", "Score: 1/0",
    )
    for w in (
        "Ja", "Nein", "Oui", "Non", "S\u00ed", "Si", "N\u00e3o", "Sim", "\u306f\u3044",
        "\u3044\u3044\u3048", "\u662f", "\u5426", "\u0434\u0430", "\u043d\u0435\u0442", "Tak",
        "Nie", "Evet", "Hay\u0131r", "Nej", "Nee", "\u043d\u0456",
    ):
        out += named("another language", None, w, f"{w}.", f"{w}, das steht im Text.")
    out += named(
        "another language", None, "No hay contradicciones.", "No se menciona.",
        "No es relevante, s\u00ed lo es.", "Nej, det er", "Nous ne savons pas.", "No lo s\u00e9",
    )
    longs = {
        "yes": ("Yes, the document names the fee of the ferry to Oland Island.",),
        "no": (
            "No, the document is about bees and names no ferry at all.",
            "The document is not relevant to the question.",
        ),
    }
    for label, texts in longs.items():
        for t in texts:
            words = t.split()
            ends = (n for n in range(1, len(words)) if words[n - 1] not in ("No", "no"))
            out += named("cut off", label, *(" ".join(words[:n]) for n in ends))
    return out


def verdict_replies() -> list[Reply]:
    "Replies that state yes, no or neither."
    makers = (worded_replies, keyed_replies, implied_replies, unstated_replies)
    return distinct(reply for make in makers for reply in make())


def judge_replies() -> list[Reply]:
    "Replies of a judge."
    out = []

    def as_json(word):
        return word.lower() if word.lower() in ("true", "false") else f'"{word}"'

    for n in (1, 2, 5, 7, 8, 10):
        out += judged(
            "a score", "Score", float(n), f"Score: {n}", f"Score: {n}.", f"**Score:** {n}",
            f"**Score: {n}**", f"Score: {n}/10", f"Score: {n} / 10", f"Score: {n} out of 10",
            f"Score: {n} of 10", f"score = {n}", f"Rating: {n}", f"Score: [[{n}]]", f"[[{n}]]",
            f"{n}", f"{n}/10", f"{n} out of 10.", f"Reasoning: it names the fee.\nScore: {n}",
            f"Reasoning: it names 3 of the 10 fees.\nHallucination: no\nScore: {n}",
            f'{{"score": {n}}}', f"{{'score': '{n}'}}",
            f'```json\n{{"reasoning": "ok", "score": {n}}}\n```', f"Score (1-10): {n}",
            f"Score (from 1 to 10): {n}", f"Score: {n}\n", f"Score: {n}, since it is right.",
            f"Score: {n} (good)", f"The score is {n}.", f"Score: {n}<|im_end|>\nScore: 3",
            f"<think>Score: 3? No.</think>Score: {n}", f"Score: {n}\nScore: {n}", f"Score: {n}.0",
            f"Score:\n{n}", f'Score: "{n}"', f"Score: {n} points",
            f"Score: {n}; Hallucination: yes",
        )
        out += judged(
            "another scale", "Score", None, f"Score: {n}/5" if n < 6 else f"Score: {n}/20",
            f"Score: {n} out of 20", f"Score: {n} of 20", f"Score: {n}/100", f"Score: {n}%",
            f"Score: {n} (out of 20)", f"Score: {n} on a scale of 1 to 5",
            f"Score: {n} (on a scale of 1-5)", f"Score (0-5): {n}", f"Score (1-5): {n}",
            f"Score (out of 5): {n}", f"{n}/5", f"{n} out of 5", f"{n} of 5",
            f"Score: {n} points out of 20", f"Score: {n} [of 5]",
            f'{{"score": {n}, "scale": "1-5"}}', f'{{"score": {n}, "max_score": 5}}',
            f"Score: {n} / 4 documents", f"Score: {n} stars of 5", f"{n}%",
            f"Score: {n}/5\nScore: {n}/5",
        )
        out += judged(
            "more than one", "Score", None, f"Score: {n}-{n + 1}", f"Score: {n} or {n + 1}",
            f"Score: {n} (or {n + 1})", f"Score: {n}\nScore: {n + 1}", f"Score: {n}, maybe {n + 1}",
            f"Score: {n} to {n + 1}", f"Score: {n} \u2013 {n + 1}", f"Score: {n}/{n + 1}",
            f"Score: {n}, {n + 1}", f"Score: {n} and {n + 1}", f"[[{n}]] or [[{n + 2}]]",
            f"Score: {n}? Score: {n + 1}?", f"Score: between {n} and {n + 2}",
            f'{{"score": {n}}} {{"score": {n + 1}}}', f'{{"score": "{n} or {n + 1}"}}',
            f"<think>Score: {n}", f"Score: {n}?", f"Score: about {n}", f"Score: not {n}",
            f"Score: at least {n}",
        )
    out += judged(
        "no score", "Score", None, "", "Score:", "Score: high", "Score: N/A", "Score: 0",
        "Score: 11", "Score: -3", "Score: 100", "Score: 1,000", "Score: 7e1", "Score: 0.7",
        "Score: VII", "Score: seven", "The answer is good.", "I give it a good mark.",
        "Score: a number from 1 to 10", "Score: 1 to 10", "Score: <1-10>", "Score: ?",
        "Score: none", "Bewertung: 7", "It names 7 fees.", "7 documents", "Document 7", "7th",
        "Score: 7th", "No score: 7 documents are missing.", "Page 3: 7", "[7]", "Underscore: 7",
        "Reasoning: 7", "Reasoning: 7/10", "Score: 12/10", "Score: 1/0", "7.5.2", "Score: 7.5.2",
        "Scores: 7 and 8",
    )
    for w, label in (
        ("yes", "yes"), ("no", "no"), ("Yes", "yes"), ("No", "no"), ("YES", "yes"), ("NO", "no"),
        ("true", "yes"), ("false", "no"),
    ):
        out += judged(
            "a flag", "Hallucination", label, f"Hallucination: {w}", f"**Hallucination:** {w}",
            f"**Hallucination: {w}**", f"Hallucination: {w}.", f"Hallucination flag: {w}",
            f"Hallucinated: {w}", f"hallucination = {w}", f"Hallucination (yes/no): {w}",
            f"Hallucination: {w}\nScore: 7",
            f"Reasoning: no claim is missing, yes.\nHallucination: {w}\nScore: 7",
            f"Hallucination: {w}, since it is so.", f"Hallucination: {w} (document 2)",
            f"Hallucination: [{w}]", f'{{"hallucination": "{w}"}}', f"Hallucination is {w}.",
            f'```json\n{{"score": 7, "hallucination_flag": {as_json(w)}}}\n```',
            f"<think>Hallucination: maybe</think>Hallucination: {w}",
            f"Hallucination: {w}<|im_end|>Hallucination: perhaps", f'Hallucination: "{w}"',
            f"Hallucination: {w} - it is so",
        )
    out += judged(
        "a flag that is none", "Hallucination", None, "Hallucination: no evidence for the claim",
        "Hallucination: no source names the fee", "Hallucination: yes and no",
        "Hallucination: yes or no", "Hallucination: yes/no", "Hallucination: yes | no",
        "Hallucination: partly", "Hallucination: partial", "Hallucination: maybe",
        "Hallucination: none detected", "Hallucination: not found", "Hallucination: 0",
        "Hallucination: 1", "Hallucination: 7", "Hallucination: low", "Hallucination:",
        "No hallucination: true", "No hallucination: yes", "no_hallucination: true",
        '{"no_hallucination": true}', '{"hallucination": null}', '{"hallucination": "no evidence"}',
        "Hallucination-free: yes", "Free of hallucination: yes", "Not hallucinated: yes",
        "Non-hallucinated: yes", "Is there hallucination? Yes", "yes", "no",
        "Hallucination: yes\nHallucination: no", "Hallucination: no, yes",
        "Hallucination: no, or rather yes", "Hallucination: unknown", "Without hallucination: yes",
        "Absence of hallucination: yes", "Hallucination: no doubt about it",
        "Hallucination: no way to tell", "Hallucination: yes if the fee changed",
        "Hallucination: no?", "hallucinations: none", "Hallucination: yes, partly",
        "Hallucination: no longer", "Hallucination: nothing", "Hallucination: note the fee",
        "Hallucination: no-one said so", "Hallucination: to be decided",
    )
    for w, label in (
        ("yes", "yes"), ("no", "no"), ("partial", "partial"), ("Yes", "yes"), ("No", "no"),
        ("Partial", "partial"),
    ):
        out += judged(
            "a label", "Label", label, w, f"{w}.", f"**{w}**", f"Label: {w}", f"The label is: {w}",
            f"Label: {w}.", f"{w}, since it says so.", f"{w}: it says so.", f'{{"label": "{w}"}}',
            f"Label = {w}", f"{w}\n", f'"{w}"',
        )
    out += judged(
        "a label that is none", "Label", None, "", "no or yes?", "yes or no", "yes, no or partial",
        "yes/partial/no", "partial or no", "not partial", "No information on the price is given.",
        "No fee is named.", "maybe", "partially yes", "It depends", "Label: yes or partial",
        "Label: no information", "who knows", "yes and no", "I cannot label this", "Label:", "none",
        "No one knows", "not yes", "Label: yes\nLabel: no", "partially", "1", "yes? no?",
        "neither yes nor no", "The response says no more.", "No, yes",
    )
    for w, label in (("yes", "yes"), ("no", "no")):
        out += judged(
            "a refusal judged", "Contains the answer", label, f"Contains the answer: {w}",
            f"Reasoning: the fee is there.\nContains the answer: {w}", f"contains_the_answer = {w}",
            f"Contains the answer: {w}, in document 2.", f"**Contains the answer:** {w.upper()}",
        )
    out += judged(
        "a refusal judged", "Contains the answer", None,
        "Reasoning: the text is not relevant, so no.", "Contains the answer: no document does",
        "Contains the answer: not really", "Contains the answer: in part",
        "Does not contain the answer: yes", "Contains the answer: yes or no",
        "It contains no answer: true",
    )
    return distinct(out)


def relation_replies() -> list[Reply]:
    "Replies that name one of four classes."
    out = []
    for n in (1, 2, 3, 4):
        out += named(
            "a class", n, f"{n}", f"{n}.", f" {n}\n", f"**{n}**", f"({n})", f'"{n}"', f"Class {n}",
            f"Category {n}.", f"Answer: {n}", f"The answer is {n}.", f"It is {n}.",
            f"{n}: it is related to both", f"{n} - a new topic", f"Relation: {n}", f"Option {n}",
            f"{n}, since it follows up", f'{{"class": {n}}}', f"[{n}]",
            f"Label: {n}", f"Number {n}", f"<think>maybe {n % 4 + 1}</think>{n}",
            f"Type {n}", f"# {n}", f"The class is {n}",
        )
        m = n % 4 + 1
        out += named(
            "more than one", None, f"{n} or {m}", f"{n} and {m}", f"{n}/{m}", f"{n}, {m}",
            f"not {n}", f"It is not {n}.", f"It isn't {n}", f"between {n} and {m}",
            f"either {n} or {m}", f"{n}-{m}", f"{n} {m}", f"{n}? {m}?", f"maybe {n}, maybe {m}",
            f"{n} out of 4", f"{n} of 4", f"{n}/4", f"neither {n} nor {m}", f"{n}?",
            f"not {n} and not {m}", f"{n} is wrong", f"Anything but {n}",
            f"1: no, {n}: perhaps" if n > 1 else "1: no, 2: perhaps",
        )
        out += named(
            "taken back", None, f"It is not {n}, it is {m}", f"{n}? No, {m}.",
            f"{n}, or rather {m}", f"not {n} but {m}",
        )
    out += named(
        "none", None, "", "5", "0", "-1", "10", "12", "1.5", "related", "neither", "new topic",
        "one", "The question", "In 2 of the turns", "turn 2", "document 3", "the 2nd", "1966",
        "2 questions", "It has 3 parts", "Which is it: 1, 2, 3 or 4?", "1, 2, 3 or 4", "A", "I",
        "II", "It is related to the previous question", "100 %", "4th", "3 crowns", "user 1", "1st",
        "step 1", "v2", "question 2 asks", "in 4 words", "half of 4", "1e3", "2x", "1,2",
        "the last 3 turns", "1 2 3 4",
    )
    return distinct(out)
