-- row: 60
-- where: fetch
-- expect: error
-- says: it must be a request made by
local t = {} t.t = t
return t
