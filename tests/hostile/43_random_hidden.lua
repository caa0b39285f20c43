-- row: 43
-- where: pod
-- expect: error
-- says: unknown function 'random' of 'math'
local function draw(library) return library.random() end
return draw(math)
