"""The experiments on sequential patterns of [1]_, section 3.5.3, one module per group of figures.

Each prints its table, writes its numbers as JSON and draws its figure; ``docs/experiments.md`` says
how they are run and what came out.

References
----------
.. [1] M. Körber, doctoral thesis, 2021.
"""
