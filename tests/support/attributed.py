"""What became of the answers of a prediction file: what two studies show.

Such a file has answers and their passages, and nothing of what happened in between. It shows that a question without an answer
was answered, that one with an answer was refused, or that the answer is wrong; and whether gold was among the passages.
"""

from collections.abc import Iterable, Mapping, Sequence

from mtrag_nb.core.types import TO_ANSWER, TO_REFUSE, Gold
from mtrag_nb.evaluation.blame import Blame, BlameReport
from mtrag_nb.evaluation.items import Item
from mtrag_nb.evaluation.verdicts import best_by_target, says_target
from mtrag_nb.evaluation.refusals import decision


def _blame_item(
    item: Item, gold: Gold, relevant: Iterable[str], idk: float | None = None
) -> Blame:
    "What became of an answer, by answer and qrels. `idk`: 1 if it refuses; None: as the item says."
    refused = item.refused if idk is None else idk == 1
    if gold.answerability in TO_REFUSE:
        ending = ("right",) if refused else ("failed", "answered from nothing")
        return Blame(item.task_id, *ending)
    if gold.answerability not in TO_ANSWER or not gold.targets:
        return Blame(item.task_id, "not judged")
    refused = refused and not says_target(item.answer, gold.targets)
    told = best_by_target(item.answer, gold.targets, item.question)
    if not refused and told.verdict != "wrong":
        return Blame(item.task_id, told.verdict, why=told.why)
    wanted = set(relevant)
    seen = {*(c.document_id for c in item.contexts), *(i for i, _ in item.ranked)}
    cause = "declined though gold was there" if refused else "wrong draft from gold"
    if not wanted:
        cause = "no gold passages are known"
    elif item.unranked and not item.contexts:
        cause = "search not recorded"
    elif not wanted & seen:
        cause = "gold not found"
    return Blame(item.task_id, "failed", cause)


def blame_items(
    name: str, items: Sequence[Item], gold: Mapping[str, Gold]
) -> BlameReport:
    "The answers of a prediction file, as far as they can be attributed."

    def became(i):
        wanted = [p.id for p in gold[i.task_id].passages]
        return _blame_item(i, gold[i.task_id], wanted, decision(i)[1])

    known = {i.task_id: i for i in items if i.task_id in gold}
    turns = {t: became(i) for t, i in known.items()}
    talks = {t: i.conversation_id for t, i in known.items()}
    return BlameReport(name, turns, talks)
