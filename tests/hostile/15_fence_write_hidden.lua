-- row: 15
-- where: pod
-- expect: error
-- says: cannot set global 'fence'
local env = _ENV
env['fen' .. 'ce'] = nil
