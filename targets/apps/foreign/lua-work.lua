-- Work as scripts have it: objects with methods, closures, strings, patterns, tables, sorting, coroutines, errors.
local seed = 12345
local function random(n)
    seed = (seed * 1103515 + 12345) % 2147483647
    return seed % n
end

local Shape = {}
Shape.__index = Shape
function Shape.new(kind, size) return setmetatable({ kind = kind, size = size }, Shape) end
function Shape:area() return self.size * self.size end
function Shape:grow(by) self.size = self.size + by; return self end
local Round = setmetatable({}, { __index = Shape })
Round.__index = Round
Round.__lt = function(a, b) return a.size < b.size end
function Round.new(size) return setmetatable(Shape.new("round", size), Round) end
function Round:area() return 3 * Shape.area(self) end

local function objects(rounds)
    local sum = 0
    local all = {}
    for i = 1, 50 do all[i] = i % 3 == 0 and Round.new(random(20)) or Shape.new("square", random(20)) end
    for round = 1, rounds do
        for _, shape in ipairs(all) do sum = (sum + shape:grow(round % 3 - 1):area()) % 1000003 end
    end
    return sum
end

local function closures(rounds)
    local function counter(step)
        local count = 0
        return function(by) count = (count + step * by) % 65521; return count end
    end
    local counters = {}
    for i = 1, 10 do counters[i] = counter(i) end
    local sum = 0
    for i = 1, rounds do sum = (sum + counters[i % 10 + 1](i)) % 1000003 end
    return sum
end

local function strings(rounds)
    local words, sum = {}, 0
    for i = 1, rounds do
        local word = string.format("%s-%03d", ("abcdefgh"):sub(i % 5 + 1, i % 5 + 3), i % 100)
        words[#words + 1] = word:upper():reverse()
        sum = sum + #word + word:byte(-1)
    end
    local text = table.concat(words, " ")
    for digits, letters in text:gmatch("(%d+)%-(%u+)") do sum = (sum + tonumber(digits) * #letters) % 1000003 end
    local _, replaced = text:gsub("[A-C]+", function(run) return run:lower() end)
    return sum + replaced
end

local function sorting(n)
    local list = {}
    for i = 1, n do list[i] = { key = random(100000), name = "n" .. random(50) } end
    table.sort(list, function(a, b)
        if a.name ~= b.name then return a.name < b.name end
        return a.key < b.key
    end)
    local sum = 0
    for i, item in ipairs(list) do sum = (sum * 31 + item.key + i) % 1000003 end
    return sum
end

local function coroutines(n)
    local function walk(tree)
        if tree then
            walk(tree.left)
            coroutine.yield(tree.value)
            walk(tree.right)
        end
    end
    local function insert(tree, value)
        if not tree then return { value = value } end
        local side = value < tree.value and "left" or "right"
        tree[side] = insert(tree[side], value)
        return tree
    end
    local tree
    for _ = 1, n do tree = insert(tree, random(10000)) end
    local sum = 0
    for value in coroutine.wrap(function() walk(tree) end) do sum = (sum * 7 + value) % 1000003 end
    return sum
end

local function queens(n)
    local found, columns, up, down = 0, {}, {}, {}
    local function place(row)
        if row > n then found = found + 1; return end
        for column = 1, n do
            if not columns[column] and not up[row + column] and not down[row - column + n] then
                columns[column], up[row + column], down[row - column + n] = true, true, true
                place(row + 1)
                columns[column], up[row + column], down[row - column + n] = nil, nil, nil
            end
        end
    end
    place(1)
    return found
end

local function errors(rounds)
    local sum = 0
    for i = 1, rounds do
        local ok, why = pcall(function()
            if i % 3 == 0 then error({ code = i % 17 }) end
            return i
        end)
        sum = (sum + (ok and why or why.code)) % 1000003
    end
    return sum
end

local function floats(n)
    local sum = 0.0
    for i = 1, n do sum = sum + math.sin(i) * math.sqrt(i) / (1 + i % 7) end
    return math.floor(sum * 1000)
end

local answers = {}
for round = 1, 12 do
    answers[#answers + 1] = objects(250)
    answers[#answers + 1] = closures(15000)
    answers[#answers + 1] = strings(700)
    answers[#answers + 1] = sorting(600)
    answers[#answers + 1] = coroutines(500)
    answers[#answers + 1] = queens(6)
    answers[#answers + 1] = errors(1500)
    answers[#answers + 1] = floats(300)
    collectgarbage()
end
local sum = 0
for _, answer in ipairs(answers) do sum = (sum * 131 + answer) % 2147483647 end
return tostring(sum)
