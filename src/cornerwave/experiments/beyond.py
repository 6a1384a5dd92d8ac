"""Beyond the paper, in one part: nonlinear attacks, cost without matrices, a miner's loss."""

from cornerwave.experiments import cost, miner, nonlinear
from cornerwave.experiments.result import Result
from cornerwave.experiments.setting import Setting


def run(setting: Setting) -> Result:
    """Run the three experiments and join their results."""
    results = [module.run(setting) for module in (nonlinear, cost, miner)]
    text = " ".join(result.text for result in results if result.text)
    return Result(
        "Beyond the paper",
        text,
        tuple(statement for result in results for statement in result.statements),
        tuple(drawing for result in results for drawing in result.drawings),
        {name: columns for result in results for name, columns in result.numbers.items()},
    )
