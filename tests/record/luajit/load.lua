-- What tests/record/luajit.sh records: load.lua MODE SECONDS. It prints how long each part ran, in
-- seconds. Nothing is called last in a function that returns its result: a tail call has no frame.
local ffi = require 'ffi'
ffi.cdef [[
typedef struct { long s, ns; } app_time;
int clock_gettime(int, app_time *);
int usleep(unsigned);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
]]
local mode, seconds = arg[1], tonumber(arg[2])
local PROCESS, THREAD = 2, 3
local App, Parts, took, order = {}, {}, {}, {}
local file = arg[0]

local time = ffi.new 'app_time'
local function clock(id)
	ffi.C.clock_gettime(id or THREAD, time)
	return tonumber(time.s) + tonumber(time.ns) / 1e9
end

function App.burn(n)
	local x = n
	for i = 1, n do
		x = (x * 31 + i) % 65521
	end
	return x
end
local burn = App.burn

function App.three(n)
	return burn(n) + burn(n) + burn(n)
end
function App.one(n)
	local x = burn(n)
	return x
end
function App.down(depth, f, n)
	if depth == 0 then
		local x = f(n)
		return x
	end
	return App.down(depth - 1, f, n) + 1
end

function App.timed(what, f, ...)
	local from = clock()
	f(...)
	if not took[what] then
		took[what] = 0
		order[#order + 1] = what
	end
	took[what] = took[what] + clock() - from
end

-- Iterations of burn() in a millisecond
local function speed()
	local n, from, t = 1000
	repeat
		n = n * 2
		from = clock()
		burn(n)
		t = clock() - from
	until t > 0.01
	return n / t / 1000
end

-- Turns of random length: others could keep step with the samples.
function App.walk(depth, ms)
	local n = math.floor(ms * (1 + 3 * math.random()))
	App.timed('three', App.down, depth, App.three, n)
	App.timed('one', App.down, depth, App.one, n)
end
function App.work(depth)
	local stop, ms = clock() + seconds, speed()
	while clock() < stop do
		App.walk(depth, ms)
	end
end

-- In a coroutine that another one resumes
function App.coroutine()
	local outer = coroutine.create(function()
		local inner = coroutine.wrap(function()
			App.work(24)
		end)
		inner()
		coroutine.yield(1)
	end)
	local ok, err = coroutine.resume(outer)
	assert(ok, err)
end

-- Functions that are compiled into the loop of their caller
local function step(x, i)
	return (x * 31 + i) % 65521
end
function App.inline_three(n)
	local x = 0
	for i = 1, 3 * n do
		x = step(x, i)
	end
	return x
end
function App.inline_one(n)
	local x = 0
	for i = 1, n do
		x = step(x, i)
	end
	return x
end
function App.inline()
	local stop, ms = clock() + seconds, speed()
	while clock() < stop do
		local n = math.floor(ms * (1 + 3 * math.random()))
		App.timed('three', App.inline_three, n)
		App.timed('one', App.inline_one, n)
	end
end

function Parts.in_local(n)
	local fire = burn
	local x = fire(n)
	return x
end
function Parts.in_upvalue(n)
	local x = burn(n)
	return x
end
function Parts.in_global(n)
	blaze = burn
	local x = blaze(n)
	return x
end
function Parts.in_field(n)
	local x = App.burn(n)
	return x
end
local Class = { burn = function(_, n)
	local x = burn(n)
	return x
end }
Class.__index = Class
function Parts.in_method(n)
	local x = setmetatable({}, Class):burn(n)
	return x
end
function Parts.in_closure(n)
	local function inner(m)
		local x = burn(m)
		return x
	end
	local x = inner(n)
	return x
end
function Parts.in_anonymous(n)
	local x = (function(m)
		local y = burn(m)
		return y
	end)(n)
	return x
end
function Parts.in_varargs(n)
	local function many(...)
		local x = burn((select(1, ...)))
		return x
	end
	local x = many(n, 2, 3)
	return x
end
function Parts.in_pcall(n)
	local _, x = pcall(burn, n)
	return x
end
function Parts.in_xpcall(n)
	local _, x = xpcall(function()
		local y = burn(n)
		error(y)
	end, function(e)
		burn(n)
		return e
	end)
	return x
end
function Parts.in_gsub(n)
	local x = ('a'):gsub('a', function()
		burn(n)
		return 'b'
	end)
	return x
end
function Parts.in_sort(n)
	local t = { 2, 1 }
	table.sort(t, function(a, b)
		burn(n)
		return a < b
	end)
	return t
end
function Parts.in_wrap(n)
	local x = coroutine.wrap(function()
		burn(n)
	end)()
	return x
end
function Parts.in_resumed(n)
	local co = coroutine.create(function()
		coroutine.yield(1)
		burn(n)
	end)
	coroutine.resume(co)
	local _, x = coroutine.resume(co)
	return x
end
function Parts.in_iterator(n)
	local function each(state, i)
		if i < 1 then
			burn(state)
			return i + 1
		end
	end
	for _ in each, n, 0 do
	end
end
local Meta = setmetatable({}, {
	__index = function(_, n)
		local x = burn(n)
		return x
	end,
	__add = function(_, n)
		local x = burn(n)
		return x
	end,
	__call = function(_, n)
		local x = burn(n)
		return x
	end,
})
function Parts.in_index(n)
	local x = Meta[n]
	return x
end
function Parts.in_add(n)
	local x = Meta + n
	return x
end
function Parts.in_call(n)
	local x = Meta(n)
	return x
end
function Parts.in_string(n)
	local f = loadstring('local burn, n = ...\nlocal x = burn(n)\nreturn x')
	local x = f(burn, n)
	return x
end
function Parts.in_file(n)
	number, fire = n, burn
	dofile((file:gsub('load.lua', 'part.lua')))
end
function Parts.reused(n) -- code comes and goes
	for i = 0, 7 do
		local code = ('local burn, n = ...\nlocal function m%d()\nlocal x = burn(n)\nreturn x\nend\n'
			.. 'local x = m%d()\nreturn x'):format(i, i)
		local f = loadstring(code)
		f(burn, n)
		collectgarbage()
	end
end
function Parts.in_c(n)
	local t = {}
	for i = 1, 2000 do
		t[i] = i * 7919 % 2003
	end
	table.sort(t)
	return t
end
function Parts.in_callback(n) -- of C
	local pair = ffi.new('int[2]', 2, 1)
	local cb = ffi.cast('int (*)(const void *, const void *)', function()
		burn(n)
		return 1
	end)
	ffi.C.qsort(pair, 2, 4, cb)
	cb:free()
end
function Parts.in_tail(n)
	return burn(n)
end

function App.parts()
	local ms = speed()
	local names = {}
	for name in pairs(Parts) do
		names[#names + 1] = name
	end
	table.sort(names)
	for _, name in ipairs(names) do
		local part, from = Parts[name], clock(PROCESS)
		repeat
			part(math.floor(ms))
			took[name] = clock(PROCESS) - from
		until took[name] > seconds
		order[#order + 1] = name
	end
	App.timed('deep', App.down, 300, burn, math.floor(ms * 1000 * seconds))
end

function App.doze(us)
	ffi.C.usleep(us)
end
function App.wait()
	App.doze(seconds * 1e6)
end

ffi.C.usleep(300000) -- found by its first samples
speed()
if mode == 'main' then
	App.work(24)
else
	App[mode]()
end
for _, name in ipairs(order) do
	print(('%s %f'):format(name, took[name]))
end
