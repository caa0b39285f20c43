-- row: 11
-- where: pod
-- expect: load
-- says: unknown global 'getmetatable'
getmetatable('').__index = nil
