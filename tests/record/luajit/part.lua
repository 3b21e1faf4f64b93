-- Run by load.lua.
fire(number)
