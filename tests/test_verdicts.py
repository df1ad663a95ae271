"""Right, wrong and refused for anybody's answers: short targets, other spellings and scripts, refusals of other languages and frameworks,
gold in every form. What judges reply: tests/test_judging.py. The counts over `data/refusals/test.jsonl` and `data/licence/short.jsonl`
are in 7_evaluation/10_licence."""

import json
import shutil
import unicodedata
from pathlib import Path

import pytest

from mtrag_nb.app.cli import main
from mtrag_nb.app.evaluate import evaluate
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import RetrievalSettings, load_settings
from mtrag_nb.core.claims import check_claims, claim_tokens
from mtrag_nb.core.refusals import Stance, stance, unknown_language
from mtrag_nb.core.replies import Label, parse_verdict
from mtrag_nb.core.text import (
    content_words,
    script_of,
    sentences,
    support,
    unread_number,
)
from mtrag_nb.core.types import Gold, Passage, SettingsError, expect
from mtrag_nb.data.mtrag import read_benchmark, sample_dir
from mtrag_nb.data.tasks import BY_TEXT, is_gold
from mtrag_nb.evaluation.blame import _strayed, blame
from mtrag_nb.evaluation.judge import _split_by_judge
from mtrag_nb.evaluation.verdicts import (
    best_by_target,
    says_target,
    verdict_of,
    why_not_judged,
)
from mtrag_nb.evaluation.proof import right_by_target
from mtrag_nb.evaluation.evidence import Evidence
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.search.retrieve import Retriever
from mtrag_nb.search.store import open_index
from mtrag_nb.serve.serve import library
from mtrag_nb.systems.foreign import as_passage, read_reply
from tests.support.servers import completion, serving

ROOT = Path(__file__).parents[1]
DOGS, PARK = "Are dogs allowed?", "Are dogs allowed in the park?"
VERDICTS = [  # question, targets, answer, verdict
    # yes and no, by polarity
    (DOGS, "No", "Yes.", "wrong"),
    ("Is it open on Monday?", "Yes", "No.", "wrong"),
    ("Which of the two is free?", "Both", "Bananas grow.", "undecided"),
    (DOGS, "No", "No, dogs are not allowed in the garden of the observatory.", "right"),
    (DOGS, "No", "Dogs are not allowed.", "right"),
    (DOGS, "No", "Dogs are allowed in the garden.", "wrong"),
    (DOGS, "Yes", "Bananas grow in the yard.", "undecided"),
    ("Sind Hunde erlaubt?", "Nein", "Nein, Hunde dürfen nicht in den Garten.", "right"),
    ("Who goes?", "Both", "Both of them go.", "right"),
    (PARK, "Yes", "Absolutely, as long as they are on a lead.", "right"),
    (PARK, "Yes", "Absolutely not.", "wrong"),
    (PARK, "No", "Of course not.", "right"),
    (PARK, "No", "I'm afraid not.", "right"),
    (PARK, "No", "Never.", "right"),
    (PARK, "Yes", "They are.", "right"),
    (PARK, "No", "They aren't.", "right"),
    (PARK, "Yes", "They are in the garden.", "undecided"),
    (PARK, "Yes", "Yes and no: on the lawn they are not.", "undecided"),
    (PARK, "No", "Answer: No", "right"),
    (PARK, "No", "The answer is yes.", "wrong"),
    (PARK, "No", "Based on the rules, no, dogs are not allowed.", "right"),
    ("博物馆周一开放吗？", "不", "是的，周一开放。", "wrong"),
    ("Открыт ли музей?", "Нет", "Нет, музей закрыт.", "right"),
    ("Müze açık mı?", "Hayır", "Evet, açık.", "wrong"),
    # a sentence answers yes or no where it has the whole question
    ("Are dogs allowed in the garden?", "Yes", "Dogs are allowed in the yard.", "undecided"),
    ("Are dogs allowed in the garden?", "Yes", "The garden is open.", "undecided"),
    ("Are dogs allowed in the garden?", "Yes", "Dogs are allowed in the garden at night.", "right"),
    ("Are dogs allowed in the garden?", "Yes", "Dogs are not allowed in the gardens.", "wrong"),
    # short targets choose their measure
    ("", "12 crowns", "A ticket costs 12 crowns for each adult visitor of the tower.", "right"),
    ("", "12 crowns", "It is 12 crowns; buy the ticket at the kiosk, or online at any time.", "right"),
    ("", "Ilvra", "The keeper of the light at the harbour is called Ilvra today.", "right"),
    ("", "twelve kroner|12 crowns", "It costs 12 crowns", "right"),
    ("", "12", "twelve", "right"),
    ("", "1,200", "1200", "right"),
    ("", "12 km", "12km", "right"),
    ("", "12 crowns", "A ticket costs 120 crowns.", "wrong"),
    ("", "12 crowns", "It does not cost 12 crowns.", "undecided"),
    ("", "5 km", "5 km²", "wrong"),
    ("", "5 km²", "5 km", "wrong"),
    ("", "5 km", "5 km^2", "wrong"),
    ("", "5 m", "5 m2", "wrong"),
    ("", "5 m²", "5 m³", "wrong"),
    ("", "5 km²", "5km^2", "right"),
    ("", "5 km²", "It is 5 square kilometres.", "right"),
    ("", "5 kW", "5 kWh", "wrong"),
    ("", "5 MB", "5 MB/s", "wrong"),
    ("", "5 km/h", "5 kilometres per hour", "right"),
    ("", "12 crowns", "12 crowns a day", "right"),
    ("", "5 degrees", "−5 degrees", "wrong"),
    ("", "Ilvra", "The keeper is Anna, and she has been there for forty years by now.", "wrong"),
    ("", "It does not contain nuts.", "It contains nuts.", "wrong"),
    ("", "red, green and blue", "Blue, red, and green.", "right"),
    ("", "red, green and blue", "Red and black.", "undecided"),
    ("", "Anna Holm", "安娜", "undecided"),
    ("When?", "3 May 2021", "It opened on 03.05.2021.", "right"),
    ("When?", "2021-05-03", "May 3rd, 2021", "right"),
    ("When?", "May 3, 2021", "On 5 May 2021.", "wrong"),
    ("When?", "May 3, 2021", "In May 2021.", "undecided"),
    ("When?", "9:00", "At 9 am.", "right"),
    ("When?", "21:00", "At 9 p.m.", "right"),
    ("When?", "21:00", "At 9 am.", "wrong"),
    ("When?", "It opens at 9.", "It opens at 9:00.", "right"),
    ("How many?", "12", "A dozen.", "right"),
    ("Which version?", "3.10", "version 3.1", "wrong"),
    ("Which version?", "v3.10", "3.10", "right"),
    ("How much?", "3.10", "3.1", "right"),
    ("Which colours?", "- red\n- green\n- blue", "blue, red, green", "right"),
    ("Who?", "O'Brien", "It was O’Brien who built it for the town in the last century.", "right"),
    ("", "Dogs are allowed.", "Dogs are not allowed.", "wrong"),
    ("", "Dogs are not allowed.", "Dogs are allowed.", "wrong"),
    ("Who?", "Anna Holm", "Not Peter but Anna Holm.", "right"),
    # numbers with marks are no lists, and no in a name is no answer
    ("When is it?", "1,200 crowns", "It costs 1200 crowns.", "right"),
    ("When is it?", "7,50", "7.50 for each.", "right"),
    ("When is it?", "7,50", "8.50 for each.", "wrong"),
    ("When is it?", "10:30", "It leaves at 10.30.", "right"),
    ("When is it?", "10.30", "It leaves at 10:30 from the harbour.", "right"),
    ("When is it?", "10:30", "It leaves at 10.45.", "wrong"),
    ("When is it?", "both, all", "Bananas grow.", "undecided"),
    ("When is it?", "No smoking", "Smoking is allowed.", "wrong"),
    ("When is it?", "No smoking", "There is no smoking in the hall.", "right"),
    ("When is it?", "No smoking", "No.", "wrong"),
    # a target in a clause that denies it
    ("", "30 days", "You can't return goods within 30 days.", "undecided"),
    ("", "30 days", "You can't return any of the opened goods within 30 days.", "undecided"),
    ("", "30 Tage", "Waren kann man innerhalb von 30 Tagen nicht zurückgeben.", "undecided"),
    ("", "30 Tage", "In den ersten 30 Tagen ist keine Rückgabe möglich.", "undecided"),
    ("", "Eiffel", "Den Turm hat Eiffel nicht gebaut.", "undecided"),
    ("", "30 days", "It takes 30 days, not 20.", "right"),
    ("", "30 euros", "The fee is no more than 30 euros.", "right"),
    ("", "30 days", "Not by Monday, but in 30 days.", "right"),
    ("", "no ticket below 6 years", "No ticket is needed below 6 years.", "right"),
    ("Below which age is no ticket needed?", "6 years", "None below 6 years.", "right"),
    # Han numerals are not read; numbers of other languages count by value
    ("他多大？", "二十五岁", "他今年25岁。", "undecided"),
    ("他多大？", "25", "他今年二十五岁。", "undecided"),
    ("他多大？", "二十五", "他今年五十二岁。", "undecided"),
    ("多少钱？", "三百", "门票是300元。", "undecided"),
    ("他多大？", "二十五岁", "他今年二十五岁。", "right"),
    ("多少人？", "2000人", "两千人", "undecided"),
    ("何人ですか。", "12000人", "一万二千人です。", "undecided"),
    ("多少年？", "20年", "廿年", "undecided"),
    ("哪一年？", "2024年", "二〇二四年", "undecided"),
    ("哪一条？", "25", "第二十五条", "undecided"),
    ("多少？", "25%", "百分之二十五", "undecided"),
    ("几个？", "3", "他吃了三明治。", "wrong"),
    ("几个？", "一", "统一了一些。", "undecided"),
    ("Wie viele Einwohner hat die Stadt?", "1.200", "The town has 1,200 inhabitants.", "right"),
    ("", "1,200", "Die Stadt hat 1.200 Einwohner.", "right"),
    ("", "1,200.50 euros", "Es sind 1.200,50 Euro.", "right"),
    ("How heavy is it?", "1200", "It is 1.200 kg.", "wrong"),
    ("How heavy is it?", "1.2", "It is 1.200 kg.", "right"),
    ("", "1,500", "1.5", "wrong"),
    ("Wie viel ist es?", "1.500", "Es sind 1,5 Liter.", "wrong"),
    # other scripts
    ("", "Пожар уничтожил город в 1921 году", "Музей был основан в 1921 году", "undecided"),
    ("", "Музей был построен в 1921 году", "Музей был построен в 1921 году", "right"),
    ("", "博物馆成立于1921年", "火灾在1921年毁了城市", "wrong"),
    ("", "พิพิธภัณฑ์ก่อตั้งในปี 1921", "ฝนตกในปี 1921", "wrong"),
    ("", "ミュージアムは古いです。", "ミュージアムは古いです", "right"),
    ("", "Grosse", "Größe", "wrong"),
]  # fmt: skip


def test_a_number_that_is_not_read_is_named():
    found = best_by_target("他今年二十五岁。", ["25"], "他多大？")
    assert found.verdict == "undecided"
    assert "二十五 is a number in a script that is not read" in found.why


@pytest.mark.parametrize("question, targets, answer, verdict", VERDICTS)
def test_an_answer_is_right_wrong_or_undecided_by_its_target(
    question, targets, answer, verdict
):
    assert verdict_of(answer, targets.split("|"), question) == verdict


@pytest.mark.parametrize(
    "said, there",
    [
        ("5 km²", "5 km"),
        ("5 km", "5 km²"),
        ("5 m2", "5 m3"),
        ("5 kWh", "5 kW"),
        ("5 MB/s", "5 MB"),
    ],
)
def test_a_claim_with_a_unit_of_another_power_or_rate_is_told(said, there):
    def told(text, passage):
        return (
            "unit"
            in check_claims(f"The lake has {text}.", [f"The lake has {passage}."])[
                0
            ].why
        )

    assert told(said, there) and not told(said, said) and not told(there, there)


def test_undecided_says_why_and_measures_say_where_they_do_not_fit():
    assert "written in" in best_by_target("安娜", ["Anna Holm"]).why
    assert why_not_judged("RougeL", "博物馆很旧", "博物馆很旧")
    assert why_not_judged("target recall", "a", "12 crowns")
    assert not why_not_judged("RougeL", "It is old.", "It is very old.")


REFUSED = (  # of languages and frameworks
    "I dont know.|I donʼt know.|I couldn′t find it in the documents.|N/A|Not found.|null|...|insufficient information|"
    "There's nothing in the documents on that.|Empty Response|"
    "The answer you are looking for is not found in the knowledge base!|"
    "Answering is not possible given the available information.|Das geht aus den Dokumenten nicht hervor.|"
    "Je ne sais pas.|No lo sé.|我不知道。|分かりません。|Я не знаю.|لا أعرف|मुझे नहीं पता।|Não sei.|Non lo so.|Nie wiem.|Nevím.|"
    "Bilmiyorum.|There isn't enough information here to say who signed it.|"
    "No relevant passages were found for your question.|Unfortunately, nothing in the text explains why it closed.|"
    "I was unable to find anything about parking.|Can't say from what I was given.|"
    "The requested information is not found in the retrieved data. Please try another query or topic.|"
    "W dostarczonych źródłach nie ma o tym mowy.|В предоставленных документах этого нет.|"
    "Недостаточно информации для ответа.|Bu konuda bir şey söyleyemem.|对不起，我没有这方面的信息。|无法从文中得知日期。|现有资料不足以回答该问题。|"
    "我找不到答案。|原文没有写明。|The provided materials do not contain the opening hours.|The materials do not mention any fee.|"
    "The materials provided do not contain an answer.|The materials do not provide any information about fees.|"
    "I don`t know.|I can`t find it in the text."
).split("|")
ANSWERED = (  # true answers with the words of refusals
    "It does not contain nuts.|They do not offer refunds.|There is no information desk at the station.|"
    "No data leaves the device.|They don't provide parking.|There is no answer key in the booklet.|"
    "It has no details page.|It is not available in Canada.|Der Kuchen enthält keine Nüsse.|国王不知道这个阴谋。|"
    "Король не знал о заговоре.|No hay ascensor en la torre.|"
    "The context menu does not list the option; it was removed in version 3.|No, it does not contain gluten.|"
    "No answer was received from the king.|The king has no information about the plot.|"
    "The articles of the treaty do not cover trade.|The excerpts do not appear in the film.|"
    "I have no objection, said the mayor.|No answer sheet may leave the room.|Soud nenašel důkazy.|"
    "These materials do not contain asbestos.|The material does not contain lead.|"
    "Materials like this do not include plastics.|These materials don't offer much protection from rain.|"
    "The building materials did not include wood.|Some materials do not have a smell."
).split("|")


@pytest.mark.parametrize(
    "stances",
    [dict.fromkeys(REFUSED, Stance.DECLINES), dict.fromkeys(ANSWERED, Stance.ANSWERS)],
)
def test_refusals_are_seen_and_true_answers_are_none(stances):
    assert {text: stance(text) for text in stances} == stances


def test_a_system_has_phrases_of_its_own():
    own = ("Ask my colleague.",)
    assert stance("Ask my colleague!", own) is Stance.DECLINES
    assert stance("Ask my colleague.") is not Stance.DECLINES
    long = "Ask my colleague. A ticket costs 12 crowns, and you can buy it at the kiosk by the harbour."
    assert stance(long, own) is Stance.PARTIAL and unknown_language(long) == ""
    assert stance("The keeper is Anna Holm.", ("N/A",)) is Stance.ANSWERS
    assert stance("It is N/A.", ("N/A",)) is Stance.DECLINES
    with expect(SettingsError, "give ['N/A']"):
        stance("The keeper is Anna Holm.", "N/A")


def test_a_language_without_a_rule_is_named():
    greek = "Τα σκυλιά δεν επιτρέπονται στον κήπο του μουσείου τη νύχτα"
    assert (
        unknown_language("De hond mag niet in de tuin van het museum komen.") == "Dutch"
    )
    assert unknown_language(greek) == "other script"
    assert (
        unknown_language(
            "Der Hund darf nicht in den Garten, und er muss draußen warten."
        )
        == ""
    )


def test_a_but_is_read_in_its_own_language():
    rest = "ma questa è una frase lunga che dice molte cose belle"
    assert stance(f"Non lo so, {rest}.") is Stance.PARTIAL
    english = (
        "I do not know the answer, ma the old one said that it is there by the sea"
    )
    assert stance(english) is Stance.DECLINES


CAKE = "The cake does not contain nuts. They do not offer refunds. There is no information desk at the station."
CAKES = [  # question, target, passage
    ("Does the cake contain nuts?", "It does not contain nuts.", "The cake does not contain nuts"),
    ("Are there refunds?", "They do not offer refunds.", "They do not offer refunds"),
    ("Is there an information desk?", "There is no information desk at the station.", "There is no information desk"),
    ("What is not there?", "No information desk is there.", "There is no information desk"),
]  # fmt: skip


def test_an_answer_that_is_the_target_is_right(tmp_path):
    tasks = [{"question": q, "answer": a, "passages": [p]} for q, a, p in CAKES]
    tasks.append({"question": "Does the cake contain milk?", "answerable": False})
    said = iter([*(a for _, a, _ in CAKES), "It does not contain milk."])
    answer = lambda messages: (next(said), [CAKE])  # noqa: E731
    done = evaluate(answer, tasks, out=tmp_path / "run", progress=False)
    assert [b.verdict for b in done.blame.turns.values()] == [*["right"] * 4, "failed"]


TEXT = "The museum's café isn't open on New Year's Eve; entry costs 1,200 crowns at the visitor-centre."
BANK = "The keeper's daughter's café isn't open – entry: 1,200 crowns (12 km off)."
SPELLINGS = {  # the same text in other code points; a number's groups are no matter of code points
    "curly": (TEXT, TEXT.replace("'", "’")),
    "NFD": (TEXT, unicodedata.normalize("NFD", TEXT)),
    "modifier apostrophe": (TEXT, TEXT.replace("'", "ʼ")),
    "non-breaking hyphen": (TEXT, TEXT.replace("-", "\u2011")),
    "soft hyphen": (TEXT, TEXT.replace("museum", "mu\u00adseum")),
    "ligature": (TEXT, TEXT.replace("costs", "coﬆs")),
    "zero width": (TEXT, TEXT.replace("crowns", "crow\u200bns")),
    "full-width digits": (TEXT, TEXT.replace("1,200", "１,２００")),
    "thousands by a blank": (TEXT, TEXT.replace("1,200", "1 200")),
    "no thousands": (TEXT, TEXT.replace("1,200", "1200")),
    "emphasis": (TEXT, TEXT.replace("café", "_café_")),
    "primes": (BANK, BANK.replace("'", "′")),
    "em dash": (BANK, BANK.replace("–", "—")),
    "narrow blank": (BANK, BANK.replace(" km", "\u202fkm")),
    "full-width letters": (BANK, BANK.replace("open", "ｏｐｅｎ")),
    "right-to-left mark": (BANK, f"\u200f{BANK}"),
    "ideographic blanks": (BANK, BANK.replace(" ", "\u3000")),
    "mathematical letters": (BANK, BANK.replace("open", "𝐨𝐩𝐞𝐧")),
}


def holds(gold: str, found: str) -> bool:
    "Whether a passage is recognised by a text of gold."
    return is_gold(Passage(f"{BY_TEXT}1", gold), Passage("p", found))


@pytest.mark.parametrize("form", SPELLINGS)
def test_a_text_in_another_spelling_is_the_same_text(form):
    text, other = SPELLINGS[form]
    assert support(text, [other]) == support(other, [text]) == 1.0
    assert "thousands" in form or (holds(other, text) and holds(text, other))


WHOLE = "The **keep&#39;s** ob-\nject is old. It costs 1.5 crowns, not 15."


@pytest.mark.parametrize(
    "gold, found, there",
    [
        ("the keep's object", WHOLE, True),
        ("is old. It", WHOLE, True),
        ("costs 1.5", WHOLE, True),
        ("costs 1", WHOLE, True),
        ("costs 15", WHOLE, False),
        ("an old object", WHOLE, False),
        ("2 crowns a day", "It costs 12 crowns a day.", False),
        ("2 crowns a day", "It costs 2 crowns a day.", True),
        ("***", "It costs 2 crowns a day.", False),
        ("crown", "It costs 2 crowns.", False),
        ("12 crowns", "112 crowns, then 12 crowns", True),
        ("成立于", "这座博物馆成立于1921年", True),
    ],
)
def test_gold_texts_are_whole_words_without_markup_and_line_ends(gold, found, there):
    assert holds(gold, found) is there


@pytest.mark.parametrize(
    "answer, text",
    [
        ("博物馆成立于1921年。", "这座博物馆成立于1921年。"),
        ("博物館は1921年に設立されました", "この博物館は1921年に設立されました"),
        ("พิพิธภัณฑ์ก่อตั้งในปี 1921", "พิพิธภัณฑ์ก่อตั้งในปี 1921 จริง"),
        ("संग्रहालय की स्थापना 1921 में हुई थी", "संग्रहालय की स्थापना 1921 में हुई थी और"),
        ("Музей был основан в 1921 году", "Музей был основан в 1921 году у гавани"),
        ("박물관은 1921년에 설립되었습니다", "박물관은 1921년에 설립되었습니다 오늘"),
    ],
)
def test_scripts_without_blanks_have_words(answer, text):
    assert support(answer, [text]) == 1.0 and verdict_of(answer, [text]) == "right"
    assert support(answer, ["今天天气很好。"]) < 0.2


def test_sentences_end_in_every_script():
    assert len(sentences("Er kam. Äpfel lagen da. Über ihm war Licht.")) == 3
    assert len(sentences("Он пришёл. Там были яблоки.")) == 2
    assert len(sentences("他来了。那里有苹果。")) == 2
    assert len(sentences("He left. “We stay,” she said.")) == 2
    assert sentences("It costs 3.5 crowns. e.g. this.") == [
        "It costs 3.5 crowns. e.g. this."
    ]
    assert not _strayed("博物馆的门票多少钱", "门票多少钱？", ["我们谈谈博物馆"])


@pytest.mark.parametrize(
    "claim, passage, supported",
    [
        ("The lowest temperature in the valley was -5 degrees.", "The lowest temperature in the valley was 5 degrees.", False),
        ("The lowest temperature in the valley was −25 degrees.", "The lowest temperature in the valley was 25 degrees.", False),
        ("The rate of the loan rose by 1,5 percent in March.", "The rate of the loan rose by 15 percent in March.", False),
        ("The fix came with version 3.10 of the server.", "The fix came with version 3.1 of the server.", False),
        ("A ticket to the tower costs ١٢ crowns.", "A ticket to the tower costs 7 crowns.", False),
        ("The tour of the old mine takes ½ hour.", "The tour of the old mine takes 3 hours.", False),
        ("The fund of the town holds $12k.", "The fund of the town holds $12.", False),
        ("The ferry leaves the harbour at 10:30.", "The ferry leaves the harbour at 30:10.", False),
        ("The office of the mayor is on the second floor.", "The office of the mayor is on the third floor.", False),
        ("The plot of land measures 10² metres.", "The plot of land measures 10 metres.", False),
        ("Dogs arenʼt allowed in the garden of the museum.", "Dogs are allowed in the garden of the museum.", False),
        ("Das Museum ist nicht am Montag geöffnet.", "Das Museum ist am Montag geöffnet.", False),
        ("博物馆门票为12克朗。", "博物馆门票为7克朗。", False),
        ("The hall holds 1 200 visitors at a time.", "The hall holds 1,200 visitors at a time.", True),
        ("The fund of the town holds 12M crowns.", "The fund of the town holds 12 million crowns.", True),
        ("A ticket costs €12 at the tower.", "A ticket costs 12 EUR at the tower.", True),
        ("The museum’s café isn’t open in winter.", "The museum's café isn't open in winter.", True),
        ("It grew by 3,5 percent in one year.", "It grew by 3.5 percent in one year.", True),
        ("Die Fähre fährt niemals am Sonntag ab.", "Die Fähre fährt am Sonntag ab.", False),
        ("Le musée n'est pas ouvert le lundi matin.", "Le musée est ouvert le lundi matin.", False),
        ("博物馆星期一不开放。", "博物馆星期一开放。", False),
        ("The hall opened on 3 May 1921.", "The hall opened on 5 May 1921.", False),
        ("It costs 12 euros to enter the tower.", "It costs 12 dollars to enter the tower.", False),
        ("Der Turm ist 45,5 Meter hoch gebaut.", "Der Turm ist 45.5 Meter hoch gebaut.", True),
        ("The tower has ninety-nine steps inside.", "The tower has 99 steps inside.", True),
        ("The fund holds €1.5bn in total today.", "The fund holds 1.5 billion euros in total today.", True),
    ],
)  # fmt: skip
def test_the_check_reads_numbers_by_value_and_negations(claim, passage, supported):
    assert check_claims(claim, [passage])[0].supported is supported
    assert check_claims(passage, [passage])[0].supported


FEE = "A fee."
FORMS = [  # of a passage of page 3 of fees.pdf
    {"page_content": FEE, "metadata": {"source": "/data/docs/fees.pdf", "page": 3}},
    {"text": FEE, "metadata": {"file_name": "fees.pdf", "page_label": "3"}},
    {"text": FEE, "metadata": {"file_path": "/data/fees.pdf", "page": 3}},
    {"text": FEE, "filename": "fees.PDF", "page_number": 3},
    {"text": FEE, "url": "https://x.invalid/fees.pdf?dl=1#page=3"},
    {"text": FEE, "url": "C:\\docs\\fees.pdf#page=3"},
    ({"text": FEE, "source": "fees.pdf", "page": 3}, 0.8),
    {
        "content": FEE,
        "meta": {"file_path": "docs/fees.pdf", "page_number": 3},
    },  # Haystack
    {"node": {"text": FEE, "metadata": {"file_name": "fees.pdf", "page_label": "3"}}},
    {"text": FEE, "metadata": {"source": "file:///data/fees.pdf", "page_label": 3}},
    {"text": FEE, "metadata": {"source": "s3://bucket/fees.pdf", "page_number": 3}},
    {"text": FEE, "metadata": {"source": "docs\\FEES.pdf", "page": 3}},
]


@pytest.mark.parametrize("given", FORMS)
def test_gold_by_file_is_found_in_every_form(given):
    golds = {"fees.pdf": True, "fees.pdf#page=3": True, "fees.pdf#page=4": False}
    golds |= {"rules.pdf": False, "es.pdf": False}
    assert {g: is_gold(Passage(g, ""), as_passage(given)) for g in golds} == golds


@pytest.mark.parametrize(
    "gold, url, there",
    [
        ("https://example.org/fees", "https://example.org/fees/?utm=1#top", True),
        ("http://www.example.org/fees/", "https://example.org/fees", True),
        ("https://example.org/page?id=4", "https://example.org/page?id=3", False),
        ("https://example.org/page?id=3", "https://example.org/page?id=3", True),
        ("https://example.org/", "https://example.org/fees", False),
        ("fees.pdf#page=3", "https://example.org/fees.pdf?dl=1#page=3", True),
    ],
)
def test_gold_by_address(gold, url, there):
    assert (
        is_gold(Passage(gold, ""), as_passage({"text": "A fee.", "url": url})) is there
    )


def test_chunks_of_one_id_are_kept_apart():
    chunks = [{"id": "d1", "text": text} for text in ("one", "two", "two")]
    reply = read_reply(("Seven.", chunks))
    assert [p.text for p in reply.passages] == ["one", "two"]
    assert {p.document_id for p in reply.passages} == {"d1"}
    assert all(is_gold(Passage("d1", ""), p) for p in reply.passages)


@pytest.mark.parametrize(
    "reply, label",
    [
        ('{"score": "yes", "explanation": {"relevant": "no"}}', "yes"),
        ('{"verdict": "yes", "verdict": "no"}', "unparsed"),
        ("yes - but only partly", "unparsed"),
        ('{"relevant": {"answer": "yes"}}', "unparsed"),
        ('Here it is:\n```json\n{"grounded": "no"}\n```', "no"),
        ('{"score": 1, "scale": 5}', "unparsed"),
    ],
)
def test_verdicts_in_objects(reply, label):
    assert parse_verdict(reply).value == label


LANGUAGES = ROOT / "data" / "languages"
REFUSE = {"Latin": "Das geht aus den Dokumenten nicht hervor.", "Han": "文档中没有相关信息。", "Arabic": "لا توجد معلومات عن ذلك في الوثائق."}  # fmt: skip


def test_twelve_turns_in_three_languages_are_answered_and_blamed(tmp_path):
    "German, Chinese and Arabic documents: ingested, searched by words, answered by the nearest sentence, blamed and reported."
    index, embedder = tmp_path / "index", Models(load_settings()).embedder
    library(
        "add", LANGUAGES / "documents", index=index, collection="rules", progress=False
    )
    how = RetrievalSettings(views="bm25:query", rerank_k=2)
    found = Retriever(open_index(index, embedder), embedder, settings=how)

    def nearest(messages):
        question = messages[-1]["content"]
        contexts = found.retrieve(question).contexts
        said = [s for c in contexts for s in sentences(c.text)]
        best = max(said, key=lambda s: support(question, [s]), default="")
        enough = best and support(question, [best]) >= 0.25
        return (best if enough else REFUSE[script_of(question)]), contexts

    done = evaluate(
        nearest, LANGUAGES / "questions.jsonl", out=tmp_path / "run", progress=False
    )
    came = {b.task_id: (b.verdict, b.cause, b.why) for b in done.blame.turns.values()}
    assert len(came) == sum(v == "right" for v, *_ in came.values()) == 12, came
    how = done.evidence.how
    assert "RougeL" in how["not judged"] and "does not know" not in how["refusals"]
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert all(w in page for w in ("Sternwarte", "天文台", "المرصد"))


def test_the_command_takes_phrases_of_a_system(tmp_path):
    run, reference = tmp_path / "run", tmp_path / "run.questions.jsonl"
    tasks = [
        {"question": "What does the boat cost?", "answerable": False, "id": "boat"}
    ]
    evaluate(lambda m: ("Ask my colleague.", [CAKE]), tasks, out=run, progress=False)

    def verdict():
        (found,) = blame(
            Evidence(Run(run), read_benchmark(reference).gold)
        ).turns.values()
        return found.verdict

    assert verdict() == "failed"
    where = [str(run), "--reference", str(reference), "--encoder", "none"]
    assert main(["score", *where, "--refusal", "Ask my colleague"]) in (0, None)
    assert verdict() == "right"


@pytest.mark.parametrize(
    "answer, target, says",
    [
        ("The documents do not say who Anna Holm is.", "Anna Holm", False),
        ("Who is Anna Holm? I do not know.", "Anna Holm", False),
        ("It costs 112 crowns.", "12 crowns", False),
        ("I cannot find 12 crownsmen.", "12 crowns", False),
        ("It costs 12 crowns.", "12 crowns", True),
        ("The keeper is Anna Holm. I do not know more.", "Anna Holm", True),
        ("It does not contain nuts.", "It does not contain nuts.", True),
        ("I do not know.", "I do not know.", True),
        (
            "As far as I see, the text does not say it, sorry.",
            "The text does not say it.",
            True,
        ),
        ("这座博物馆成立于一九二一年", "成立于一九二一年", True),
    ],
)
def test_a_refusal_about_a_target_does_not_say_it(answer, target, says):
    assert says_target(answer, [target]) is says


def test_the_kept_agreement_with_written_answers_is_that_of_the_rules():
    kept = json.loads(
        (ROOT / "data" / "measured" / "verdicts.json").read_text(encoding="utf-8")
    )
    lines = (
        (ROOT / "data" / "licence" / "short.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    cases = [json.loads(line) for line in lines]
    for kind, by in kept.items():
        some = [c for c in cases if kind in (c["kind"], "all")]
        said = [verdict_of(c["answer"], c["targets"], c["question"]) for c in some]
        right = sum(
            v == ("right" if c["right"] else "wrong") for v, c in zip(said, some)
        )
        told = by["kind of target"]
        assert told["agreement"]["n"] == len(some) > 20 and told["against"] == 0
        assert told["agreement"]["value"] == round(right / len(some), 4)
        assert right + said.count("undecided") == len(some)


@pytest.mark.parametrize(
    "text, keys",
    [
        ("It takes 3 5/0 hours.", ["#3", "#5/0"]),
        ("It opened on 24/12/2025 there.", ["#24/12/2025"]),
        ("It is -1½ degrees.", ["#-1.5"]),
        ("It is 1½ degrees.", ["#1.5"]),
        (f"It costs {'9' * 330} crowns.", [f"#{'9' * 330}"]),
        ("It costs 1.200.000 crowns.", ["#1200000"]),
        ("It costs 1 200.50 crowns.", ["#1200.5"]),
        ("It takes 0,200 hours.", ["#0.2"]),
        ("It leaves at 10.30 from there.", ["#10:30"]),
        ("It costs 10.30 crowns.", ["#10.3"]),
    ],
)
def test_odd_numbers_have_a_value_or_stay_as_they_are(text, keys):
    assert [t.key for t in claim_tokens(text) if t.key.startswith("#")] == keys


def test_numbers_beyond_floats_stay_finite():
    keys = [t.key for t in claim_tokens(f"It has 5 {'million ' * 60}stars.")]
    assert keys and not any("inf" in k or "nan" in k for k in keys)


@pytest.mark.parametrize(
    "number", ["1.200.000", "1,200,000", "1 200 000", "1'200'000", "1200000"]
)
def test_words_and_claims_read_a_number_alike(number):
    assert content_words(f"{number} crowns") == ["1200000", "crowns"]
    assert claim_tokens(f"{number} crowns")[0].key == "#1200000"


@pytest.mark.parametrize(
    "text",
    "一些 统一 三明治 十分重要 四川 千万不要 五十嵐 八百屋 三十三間堂 一切".split(),
)
def test_numerals_inside_words_and_names_are_no_numbers(text):
    assert not unread_number(text)


@pytest.mark.parametrize(
    "text, words",
    [
        ("Der Hund kostet auf der Fähre vier Kronen, und die Katze ist frei.", "hund kostet fähre vier kronen katze frei"),
        ("Le chien coûte quatre couronnes sur le ferry, et le chat est gratuit.", "chien coûte quatre couronnes ferry chat gratuit"),
        ("El perro cuesta cuatro coronas en el barco y el gato es gratis.", "perro cuesta cuatro coronas barco gato gratis"),
        ("Il cane costa quattro corone sul traghetto e il gatto non paga nulla.", "cane costa quattro corone traghetto gatto paga nulla"),
        ("O cão custa quatro coroas na balsa e o gato não paga nada.", "cão custa quatro coroas balsa gato paga nada"),
        ("Köpek feribotta dört kron tutar ve kedi için bu yıl çok az.", "köpek feribotta dört kron tutar kedi yıl"),
        ("Pies kosztuje na promie cztery korony, a kot jest za darmo.", "pies kosztuje promie cztery korony kot darmo"),
        ("الكلب يكلف أربعة كرونات على هذه العبارة والقط من الحيوانات في القائمة", "الكلب يكلف أربعة كرونات العبارة والقط الحيوانات القائمة"),
        ("कुत्ते का किराया नौका पर चार क्राउन है और बिल्ली के लिए मुफ़्त है", "कुत्ते किराया नौका चार क्राउन बिल्ली मुफ़्त"),
        ("El Paso, La Paz, Los Angeles, Las Vegas, San Jose, Santa Fe", "el paso la paz los angeles las vegas san jose santa fe"),
        ("Die Hard was the film that they saw, and Das Boot the other one.", "die hard film saw das boot one"),
    ],
)  # fmt: skip
def test_function_words_of_a_language_are_no_content_and_english_stays(text, words):
    assert content_words(text) == [
        unicodedata.normalize("NFKC", w) for w in words.split()
    ]


def test_a_deep_object_breaks_nothing():
    assert parse_verdict('{"a":' * 3000 + '{"score": "yes"}' + "}" * 3000) is Label.YES
    assert parse_verdict('{"score":' + "[" * 3000 + "]" * 3000 + "}") is Label.UNPARSED


def test_statements_are_those_of_the_answer():
    written = (
        "Here are the statements:\n- It costs 12 crowns.\n- The moon is made of cheese."
    )
    ((found, _),) = _split_by_judge(
        ScriptedChat([written]), ["q"], ["It costs 12 crowns."]
    )
    assert found == ["It costs 12 crowns."]


def test_pairs_and_ladders_ask_the_question_of_yes_and_no():
    gold = {"t": Gold("t", "ANSWERABLE", ("Yes",))}
    right = right_by_target(gold, {"t": DOGS})
    assert (
        right("t", "Dogs are allowed.") is True
        and right("t", "Dogs are not allowed.") is False
    )
    assert right_by_target(gold)("t", "Dogs are allowed.") is None


# --- a judge in the rule's place ------------------------------------------------------------------


NUTS = {"question": "Does the cake contain nuts?", "passages": [CAKE]}
NUTS["answer"] = "No, the cake has none at all, says the baker"
BY_JUDGE = {  # the answer -> label of idk, reply on correctness; what becomes of the turn
    "It does not contain nuts.": ("no", "Score: 9", "right", ""),
    "The baker sells bread and rolls on every day of the week.": (
        "no",
        "Score: 2",
        "failed",
        "",
    ),
    "It may contain nuts, or traces of them, in some of the years.": (
        *("no", "Score: 5", "undecided", "right in part, says the judge"),
    ),
    "It has no nuts in it, which the baker says of all his cakes.": (
        *("no", "Score: 9 or 2", "undecided", "the judge's verdict could not be read"),
    ),
    "Whether nuts are in it is anybody's guess as far as I go.": (
        "yes",
        "",
        "failed",
        "",
    ),
    "What the cake has in it was never written down for me.": (
        *(
            "perhaps",
            "Score: 9",
            "undecided",
            "whether it refuses, the judge does not say",
        ),
    ),
}


def scripted(asked: str) -> str:
    "A judge that says of each answer what stands in BY_JUDGE; asked: its prompt."
    known = (BY_JUDGE[a][:2] for a in BY_JUDGE if a in asked)
    label, score = next(
        known, ("no", "Score: 1")
    )  # a server is tried with words of its own
    return (
        f"Label: {label}"
        if asked.endswith("Reply with the label.")
        else f"So.\n{score}"
    )


@pytest.fixture(scope="module")
def by_judge(tmp_path_factory):
    settings = load_settings("laptop", {"stages.prompts": "full"})
    judge = ScriptedChat(lambda p: scripted(p.messages[-1][1]))
    models, said = Models(settings, judge, HashEmbedder()), iter(BY_JUDGE)
    tasks = [NUTS | {"id": f"t{k}<::>1"} for k in range(len(BY_JUDGE))]
    how = {"verdicts": "judge", "judge": models, "progress": False}
    out = tmp_path_factory.mktemp("judged") / "run"
    return evaluate(lambda messages: (next(said), [CAKE]), tasks, out=out, **how)


def blame_of(done, verdicts=""):
    return blame(Evidence(Run(done.run.folder), done.evidence.gold, verdicts=verdicts))


def test_a_judge_takes_the_rules_place_by_one_option(by_judge):
    came = [(b.verdict, b.why) for b in by_judge.blame.turns.values()]
    assert came == [x[2:] for x in BY_JUDGE.values()]
    assert "n = 1, where both decide" in by_judge.blame.note
    assert "1 undecided: the judge's verdict could not be read." in by_judge.blame.note
    page = by_judge.page.read_text(encoding="utf-8")
    assert "verdicts judge scripted" in page


def test_whose_verdicts_count_is_kept_with_the_run(by_judge):
    rule = {b.verdict for b in blame_of(by_judge, "rule").turns.values()}
    assert "Verdicts of" not in blame_of(by_judge, "rule").note and "failed" in rule
    assert blame_of(by_judge).turns == by_judge.blame.turns
    with pytest.raises(SettingsError, match="rule or judge, not of 'dice'"):
        blame_of(by_judge, "dice")


def test_a_served_judge_decides_by_command(by_judge, tmp_path, capsys):
    folder = shutil.copytree(by_judge.run.folder, tmp_path / "run")
    for kept in (
        "judge.json",
        "judgements.jsonl",
        "judge_calls.jsonl",
        "verdicts.json",
    ):
        (folder / kept).unlink()
    known = [str(folder), "--reference", f"{by_judge.run.folder}.questions.jsonl"]
    assert main(["blame", *known, "--verdicts", "dice"]) == 2
    assert "unknown --verdicts 'dice': there are rule, judge" in capsys.readouterr().err
    assert main(["blame", *known, "--verdicts", "judge"])
    assert "no answer of it is judged" in capsys.readouterr().err

    def says(*command) -> str:
        assert main([*command]) in (0, None)
        return capsys.readouterr().out

    with serving(
        lambda asked: completion(scripted(asked.body["messages"][1]["content"]))
    ) as s:
        judge = [
            "--chat",
            s.url,
            "--model",
            "Qwen",
            "--way",
            "text",
            "--verdicts",
            "judge",
        ]
        asked = says("judge", *known, *judge, "--protocols", "idk", "correctness")
    assert "Is the answer right?" in asked
    blamed = says("blame", *known)
    assert "Verdicts of server:Qwen" in blamed
    assert "6 turns judged: 1 right, 3 undecided, 2 failed" in blamed
    main(["blame", *known, "--prove"])
    assert "forks have the rule's" in capsys.readouterr().out
    assert "refusals: judge 6" in says("score", *known, "--encoder", "none")


def test_a_recorded_run_is_judged_by_its_kept_judgements():
    folder = ROOT / "data" / "recorded" / "sample_self_crag_laptop"
    run = Run(folder, judged=folder / "judged")
    gold = read_benchmark(sample_dir() / "reference.jsonl").gold
    found = blame(Evidence(run, gold, verdicts="judge"))
    scores = {
        i: js["correctness"].score
        for i, js in run.judgements.items()
        if "correctness" in js
    }
    says = {True: "right", False: "failed"}
    for i, b in found.turns.items():
        if b.why == "right in part, says the judge":
            assert 3.5 <= scores[i] < 6.5
        elif i in scores and gold[i].answerability == "ANSWERABLE":
            assert b.verdict == says[scores[i] >= 6.5]
    assert "SmolLM2" in found.judge and "agreement" in found.judge
