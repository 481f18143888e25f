echo switched
