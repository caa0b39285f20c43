-- row: 16
-- where: pod
-- expect: error
-- says: cannot set 'len' of 'string'
local function write(library) library.len = nil end
write(string)
