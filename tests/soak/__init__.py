"""Long runs that wear things out: ``make soak``. Each module is one, with a function ``run``."""
