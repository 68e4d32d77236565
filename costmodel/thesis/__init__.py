"""What only the reproduction of the thesis needs: its printed formulas and set strategies."""
