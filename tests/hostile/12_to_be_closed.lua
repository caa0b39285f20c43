-- row: 12
-- where: pod
-- expect: error
-- says: variable 'x' got a non-closable value
local x <close> = {}
