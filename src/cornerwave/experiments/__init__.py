"""The paper's evaluation, made again on real data, with a verdict for each statement.

    tables -> setting -> one module per part -> Result -> run (figures, numbers, page)

    table2, fig1            the data
    examples, theorems      the case study and every theorem, exactly
    fig2, fig3              what a coalition recovers (requests: the copies; joint: the errors)
    fig4                    what a miner loses
    fig5                    what it costs
    nonlinear, cost, miner  beyond the paper

A part measures, states and draws: measure(setting) returns plain numbers, statements
judge them, drawings show them. Seeds here are for experiments; no release uses one.
Needs the extra `cornerwave[experiments]`.
"""
