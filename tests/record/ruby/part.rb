# Loaded by load.rb.
App.burn($n)
