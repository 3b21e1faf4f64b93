# Run by load.pl.
App::burn($App::Parts::n) + 1;
