"""Operator-wide options for TrainJobs."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TrainJobOptions:
    """The options ``--trainjob-…`` of the command."""

    keep_resumed: bool = field(
        default=False,
        metadata={
            "help": "Whether a resumed TrainJob keeps the condition Suspended, as False. The SDK then shows it as Created."
        },
    )
