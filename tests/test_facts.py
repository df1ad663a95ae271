"Plain answers, facts and the verdict that rests on them: nothing contrary is right, no right paraphrase is lost."

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from mtrag_nb import evaluate
from mtrag_nb.core.plain_answer import plain_answer
from mtrag_nb.core.refusals import Stance, stance
from mtrag_nb.evaluation.contradictions import contradictions
from mtrag_nb.evaluation.measures import k_precision, target_recall
from mtrag_nb.evaluation.verdicts import best_by_target
from tests.support.planted_facts import measure, seen

ANSWERS = Path(__file__).parent / "support" / "verdict_answers.jsonl"

CONTRARY = [  # question, target, an answer that says something else; the first seven are the public case
    (
        "How much is a ticket for adults?",
        "A ticket costs 12 crowns for adults.",
        "A ticket costs 7 crowns for adults.",
    ),
    (
        "When does the ferry leave?",
        "The ferry leaves at 10:30 from the north pier.",
        "The ferry leaves at 11:45 from the north pier.",
    ),
    (
        "Who built the light?",
        "The lighthouse on Quill Island was built in 1887 by Ilvra Tam.",
        "The lighthouse on Quill Island was built in 1887 by Tomas Orr.",
    ),
    (
        "How much do visitors pay?",
        "Visitors pay 12 crowns in summer and 9 crowns in winter.",
        "Visitors pay 9 crowns in summer and 12 crowns in winter.",
    ),
    (
        "When does the museum open?",
        "The museum opens at 9 a.m. on weekdays.",
        "The museum opens at 9 p.m. on weekdays.",
    ),
    (
        "Who pays nothing?",
        "Children under 6 pay nothing.",
        "Children over 6 pay nothing.",
    ),
    (
        "Which pier is open?",
        "The north pier is closed and the south pier is open.",
        "The south pier is closed and the north pier is open.",
    ),
    (
        "How often does the bus run?",
        "It runs every twenty minutes, but it does not run on Sundays.",
        "It runs every fifty minutes, and it runs on Sundays.",
    ),
    (
        "How long is the wall?",
        "The old wall of the town is 3.2 kilometres long.",
        "The old wall of the town is 2.3 km long.",
    ),
    (
        "When was it signed?",
        "The treaty was signed on 4 May 1811 in Corran.",
        "The treaty was signed in Corran on May 14, 1811.",
    ),
    (
        "What is the number of the office?",
        "The office of the harbour master has the number 555-0142.",
        "The office of the harbour master has the number 555-0124.",
    ),
    (
        "How many rooms are there?",
        "The hotel at the lake has thirty-two rooms with a balcony.",
        "The hotel at the lake has 42 rooms with a balcony.",
    ),
    (
        "How long do I have to stay?",
        "Guests have to stay for at least three nights in summer.",
        "Guests have to stay for at most three nights in summer.",
    ),
    (
        "Who wrote to whom?",
        "Orla Fenn wrote the letter to Teo Lund in spring.",
        "Teo Lund wrote the letter to Orla Fenn in spring.",
    ),
    (
        "When must I pay?",
        "You must pay before you enter the garden of the castle.",
        "You must pay after you enter the garden of the castle.",
    ),
    (
        "On which day is it closed?",
        "The library of the town is closed on Tuesday.",
        "The library of the town is closed on Thursday.",
    ),
    (
        "What share is paid?",
        "A quarter of the costs is paid by the town council.",
        "Half of the costs is paid by the town council.",
    ),
    (
        "Wann öffnet das Bad?",
        "Das Bad öffnet an Werktagen um 9 Uhr.",
        "Das Bad öffnet an Werktagen um 11 Uhr.",
    ),
    (
        "Combien coûte la visite ?",
        "La visite du château coûte quinze euros pour les adultes.",
        "La visite du château coûte 25 euros pour les adultes.",
    ),
    (
        "¿Cuándo cierra la tienda?",
        "La tienda del puerto cierra a las 20:30 en verano.",
        "La tienda del puerto cierra a las 22:30 en verano.",
    ),
    (
        "How long is the guarantee?",
        "The guarantee covers the battery for 24 months from purchase.",
        "The guarantee covers the battery for 24 weeks from purchase.",
    ),
    (
        "Can I return it?",
        "Opened items can be returned within 30 days with a receipt.",
        "Opened items can be returned after 30 days with a receipt.",
    ),
    (
        "Who may vote?",
        "Residents aged 16 or older may vote in the town.",
        "Residents younger than 16 may vote in the town.",
    ),
    (
        "What happens?",
        "If the pump overheats, the red lamp blinks and the valve closes.",
        "If the pump overheats, the red lamp blinks and the valve opens.",
    ),
    (
        "In which order?",
        "Drain the tank, then replace the filter and close the lid.",
        "Replace the filter, then drain the tank and close the lid.",
    ),
    (
        "Is parking included?",
        "Parking is included in the room rate, but breakfast is not.",
        "Breakfast is included in the room rate, but parking is not.",
    ),
    (
        "Who is exempt?",
        "All employees except interns receive the annual bonus.",
        "All employees including interns receive the annual bonus.",
    ),
    (
        "Is a helmet needed?",
        "Wearing a helmet is mandatory for riders under eighteen.",
        "Wearing a helmet is optional for riders under eighteen.",
    ),
    (
        "What is older?",
        "The chapel is older than the town hall by about a century.",
        "The town hall is older than the chapel by about a century.",
    ),
    (
        "Where is the key?",
        "The spare key hangs behind the door of the boiler room.",
        "The spare key hangs behind the door of the laundry room.",
    ),
    (
        "Is it refundable?",
        "The deposit is refundable until seven days before arrival.",
        "The deposit is non-refundable until seven days before arrival.",
    ),
    (
        "Darf man Hunde mitnehmen?",
        "Hunde dürfen an der Leine in den Park mitgenommen werden.",
        "Hunde dürfen nicht in den Park mitgenommen werden.",
    ),
    (
        "Welcher Steg ist offen?",
        "Der Nordsteg ist geschlossen und der Südsteg ist geöffnet.",
        "Der Südsteg ist geschlossen und der Nordsteg ist geöffnet.",
    ),
    (
        "Wann kündigt man?",
        "Die Kündigung muss spätestens drei Monate vor Vertragsende eingehen.",
        "Die Kündigung muss frühestens drei Monate vor Vertragsende eingehen.",
    ),
    (
        "Wie viele Sitze?",
        "Der Saal hat 350 Sitzplätze und eine Bühne.",
        "Der Saal hat zweihundertfünfzig Sitzplätze und eine Bühne.",
    ),
    (
        "Quel quai est ouvert ?",
        "Le quai nord est fermé et le quai sud est ouvert.",
        "Le quai sud est fermé et le quai nord est ouvert.",
    ),
    (
        "Combien d'habitants ?",
        "Le village compte 2 300 habitants.",
        "Le village compte trois mille deux cents habitants.",
    ),
    (
        "¿Es obligatorio?",
        "El casco es obligatorio para los menores de edad.",
        "El casco es opcional para los menores de edad.",
    ),
]


@pytest.mark.parametrize("question, target, answer", CONTRARY)
def test_a_contrary_answer_is_never_right(question, target, answer):
    found = best_by_target(answer, [target], question)
    assert found.verdict in ("wrong", "undecided")
    assert found.why  # both facts are named
    assert best_by_target(target, [target], question).verdict == "right"


def test_contrary_answers_fail_in_evaluate_and_name_both_facts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    some = [CONTRARY[0], CONTRARY[4], CONTRARY[5]]
    questions = [{"question": q, "answer": t, "passages": [t]} for q, t, _ in some]
    answers = {q: a for q, _, a in some}
    passages = [t for _, t, _ in some]

    def system(messages):
        return answers[messages[-1]["content"]], passages

    blames = [*evaluate(system, questions, progress=False).blame.turns.values()]
    assert [b.verdict for b in blames] == ["failed", "failed", "undecided"]
    assert blames[1].cause == "wrong draft from gold"
    assert blames[1].why == "9 p.m. for 9 a.m."
    assert blames[2].why == "over for under"


RIGHT = [  # the same in other words or in another form
    (
        "How much is a ticket?",
        "A ticket costs 12 crowns for adults.",
        "Adults pay 12 crowns for a ticket.",
    ),
    (
        "When does the museum open?",
        "The museum opens at 9 a.m. on weekdays.",
        "On weekdays the museum opens at 9:00.",
    ),
    (
        "How far is it?",
        "It is 1,500 metres from the station to the hut.",
        "The hut is 1.5 km from the station.",
    ),
    (
        "How many guests come?",
        "40-60 guests come on a Saturday in June.",
        "Between 40 and 60 guests come on a Saturday in June.",
    ),
    (
        "When did it open?",
        "The bridge was opened on 3 March 2024 by the mayor.",
        "The mayor opened the bridge on 03/03/2024.",
    ),
    (
        "What share is reserved?",
        "A quarter of the seats in the hall is reserved.",
        "25 % of the seats in the hall are reserved.",
    ),
    ("What share is reserved?", "25 %", "One in four seats is reserved."),
    ("How cold is it?", "-12", "12 below zero"),
    ("How many steps?", "22", "twenty-two"),
    ("Wie viele Stufen?", "22", "Es sind zweiundzwanzig Stufen."),
    ("Combien de marches ?", "22", "Il y a vingt-deux marches."),
    ("¿Cuántos escalones?", "22", "Hay veintidós escalones."),
    ("How long does it take?", "90 minutes", "one and a half hours"),
    ("What does it cost?", "12 crowns", "I'm not certain, but 12 crowns."),
    (
        "Who pays nothing?",
        "Children under 6 pay nothing.",
        "Nothing is paid by children under 6.",
    ),
    (
        "When was it built?",
        "It was built in 1887 and sold in 1903 to the town.",
        "Sold to the town in 1903, it was built in 1887.",
    ),
    (
        "Wie heißt der Turm?",
        "Der Turm heißt in der Stadt der Lange Hans.",
        "In der Stadt heißt der Turm der Lange Hans.",
    ),
    (
        "Who may vote?",
        "Residents over 16 may vote in the town.",
        "Residents over 16 may vote in the town.",
    ),
    (
        "Which is bigger?",
        "Lake Orr is bigger than Lake Tam.",
        "Lake Tam is smaller than Lake Orr.",
    ),
    (
        "When does it close?",
        "The shop closes at six on Saturdays.",
        "On Saturdays the shop is open until six.",
    ),
    (
        "Wie viele Einwohner?",
        "Die Gemeinde hat rund 1.200 Einwohner in vier Ortsteilen.",
        "In vier Ortsteilen hat die Gemeinde etwa 1200 Einwohner.",
    ),
    (
        "Wie viele?",
        "2500 Gäste kamen im Sommer auf die Insel.",
        "Im Sommer kamen zweitausendfünfhundert Gäste auf die Insel.",
    ),
    (
        "¿Cuánto cuesta?",
        "La entrada para adultos cuesta 1.500 pesos en verano.",
        "En verano la entrada de adultos cuesta mil quinientos pesos.",
    ),
    (
        "Which systems?",
        "The driver supports Linux and macOS but not Windows.",
        "The driver supports macOS and Linux, but Windows is not supported.",
    ),
    ("Price?", "15 euros", "15 euros (previously 12)."),
    ("On which page?", "page 12", "On page 12."),
    (
        "Which days?",
        "Rubbish is collected on Mondays and paper on Thursdays.",
        "Paper is collected on Thursdays and rubbish on Mondays.",
    ),
]


@pytest.mark.parametrize("question, target, answer", RIGHT)
def test_the_same_in_another_form_is_right(question, target, answer):
    assert stance(answer) is not Stance.DECLINES
    assert best_by_target(answer, [target], question).verdict == "right"


NOT_THE_ANSWER = [
    ("How high is the dome?", "22 metres", "The car park is 22 metres wide."),
    ("How old is the bridge?", "90 years", "The guide Orla Fenn is 90 years old."),
    ("How many rooms has the hotel?", "40", "The village church has 40 pews."),
    (
        "Which languages are spoken?",
        "English, German and Dutch",
        "All but English, German and Dutch.",
    ),
    (
        "Which languages are spoken?",
        "English, German and Dutch",
        "Every language except English, German and Dutch.",
    ),
    ("Who may enter?", "Members", "Anyone but members."),
    ("How high is the dome?", "22 metres", "22 or 25 metres."),
    ("When does it open?", "9 a.m.", "It opens at 9 in the evening."),
    ("How old must one be?", "under 18", "Over 18"),
    (
        "What does it cost?",
        "12 euros",
        "It used to cost 12 euros; now it costs 15 euros.",
    ),
    (
        "What does a ticket cost?",
        "12 euros",
        "A locker costs 12 euros; I could not find the price of a ticket.",
    ),
    (
        "Which languages are spoken?",
        "English, German and Dutch",
        "English, German and French are spoken; Dutch is not.",
    ),
    ("Who won?", "Team Red", "Team Red lost to Team Blue."),
]


@pytest.mark.parametrize("question, target, answer", NOT_THE_ANSWER)
def test_the_number_of_another_thing_and_all_but_are_not_right(
    question, target, answer
):
    assert best_by_target(answer, [target], question).verdict != "right"


WRAPPED = [  # what surrounds an answer; the first three are the public case
    "{} [12].",
    "{}.\n\nSources:\n- fees.pdf, page 12",
    '{{"answer": "{}.", "id": 12}}',
    "{} [^12].",
    "{} (Source 12).",
    "{} 【12†source】.",
    "{} (Passages [12], [2]).",
    "{} [3, 12].",
    "{}.\n\n**References**\n1. fees.pdf (page 12)\n2. prices.pdf",
    "{}. [12]\n\n[12]: https://example.org/12",
    '```json\n{{"id": 12, "response": "{}"}}\n```',
    "<think>It may be 12 crowns.</think>{}.",
    "Thought: 12 or more?\nFinal answer: {}.",
    "{} (see document 12).",
    "{}.\nQuellen: Preise.pdf, Seite 12",
    "{} (see section 12).",
    "{} [doc_12].",
    "{} [12†L3-L5].",
    "{} (Fees 2024, p. 12).",
    "{} [fees.pdf:12].",
    "{} {{{{cite:12}}}}.",
    "{}.\n\nLearn more: page 12 of fees.pdf",
    '[{{"answer": "{}", "id": 12}}]',
    'Here it is:\n{{"answer": "{}", "page": 12}}',
]


@pytest.mark.parametrize("form", WRAPPED)
@pytest.mark.parametrize("target", ["A ticket costs 12 crowns", "12 crowns"])
def test_marks_and_sources_do_not_answer(form, target):
    question = "How much is a ticket for adults?"
    wrong, right = (form.format(f"A ticket costs {n} crowns") for n in (7, 12))
    assert best_by_target(wrong, [target], question).verdict == "wrong"
    assert best_by_target(right, [target], question).verdict == "right"
    assert plain_answer(right).rstrip(".") == "A ticket costs 12 crowns"


@pytest.mark.parametrize(
    "answer",
    [
        "A ticket costs $12$ crowns.",
        r"A ticket costs \(12\) crowns.",
        r"\text{12 crowns}",
        r"\boxed{12} crowns",
    ],
)
def test_a_number_in_latex_is_read(answer):
    assert best_by_target(answer, ["12 crowns"], "How much?").verdict == "right"


def test_all_measures_read_the_plain_answer():
    passage = "A ticket costs 12 crowns for adults."
    cited = f"{passage} [1]\n\nSources:\n- fees.pdf, page 12\n- prices.pdf, page 3"
    assert k_precision(cited, [passage]) == 1.0
    assert target_recall(cited, passage) == 1.0
    declining = (
        "I do not know the price.\n\nSources:\n- A ticket costs 12 crowns for adults."
    )
    assert stance(declining) is Stance.DECLINES
    assert stance('{"answer": "I do not know.", "sources": [1, 2]}') is Stance.DECLINES
    assert stance("I'm not sure, but you can ask at the office.") is Stance.DECLINES
    assert plain_answer("It costs $12 to $15.") == "It costs $12 to $15."


def test_what_is_no_number_is_a_flag_in_a_long_answer():
    long = "Boats are mended by hand in the yard behind the harbour. " * 6
    target, answer = (
        f"{long}Children {side} 6 pay 3 crowns." for side in ("under", "over")
    )
    found = best_by_target(answer, [target], "Who pays?")
    assert (found.verdict, found.flag) == ("right", "over for under")
    assert contradictions(answer, target, "Who pays?").decisive == ()


def test_facts_make_no_answer_right():
    target = "The tunnel under the bay was cut by hand and is 4.2 kilometres long."
    assert best_by_target("4.2 kilometres.", [target], "").verdict != "right"


def test_planted_contradictions_are_seen_and_right_answers_stay():
    counts = measure()
    right = counts.pop("right answers")
    shares = {kind: round(seen(counter), 3) for kind, counter in counts.items()}
    print(shares, right)
    assert right.get("demoted", 0) <= 0.02 * sum(right.values())
    assert shares["number"] >= 0.6
    for kind in ("name, short", "side, short", "denial, short"):
        assert shares[kind] >= 0.6
    for kind in ("name, long", "side, long", "denial, long"):
        assert shares[kind] == 0  # flags alone


def test_labelled_answers_in_four_languages():
    lines = ANSWERS.read_text(encoding="utf-8").splitlines()
    counts: Counter = Counter()
    for row in map(json.loads, lines):
        found = best_by_target(row["answer"], [row["target"]], row["question"])
        refused = stance(row["answer"]) is Stance.DECLINES
        counts[row["label"], "wrong" if refused else found.verdict] += 1
    wrongly_right = counts["wrong", "right"]
    wrongly_failed = counts["right", "wrong"]
    open_ones = counts["undecidable", "right"] + counts["undecidable", "wrong"]
    undecided = sum(n for (_, said), n in counts.items() if said == "undecided")
    print(counts)
    assert wrongly_right <= 2
    assert wrongly_right + wrongly_failed + open_ones <= 5
    assert undecided <= 10


def rows_of(name: str) -> list[dict]:
    lines = (ANSWERS.parent / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def verdict_on(row: dict) -> str:
    if stance(row["answer"]) is Stance.DECLINES:
        return "wrong"
    return best_by_target(row["answer"], [row["target"]], row["question"]).verdict


@pytest.mark.parametrize(
    "row", rows_of("verdict_answers_3.jsonl"), ids=lambda row: row["answer"][:40]
)
def test_a_wrong_answer_is_never_right_and_a_right_one_never_wrong(row):
    assert verdict_on(row) in (row["label"], "undecided")


def test_answers_that_were_labelled_before_the_rule_was_measured_on_them():
    "Of 60: none wrongly right, at most three decided against a person, eight undecided."
    pairs = [
        (row["label"], verdict_on(row)) for row in rows_of("verdict_answers_2.jsonl")
    ]
    counts = Counter(pairs)
    print(counts)
    assert not counts["wrong", "right"]
    assert sum(label != verdict != "undecided" for label, verdict in pairs) <= 3
    assert sum(verdict == "undecided" for _, verdict in pairs) <= 8


def test_a_verdict_takes_milliseconds():
    target = " ".join(t for _, t, _ in CONTRARY[:8])
    answers = [f"{' '.join(a for _, _, a in CONTRARY[:8])} {n}" for n in range(40)]
    began = time.process_time()
    for answer in answers:
        best_by_target(answer, [target], "What is known?")
    assert (time.process_time() - began) / len(answers) < 0.04
