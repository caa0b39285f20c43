-- row: 18
-- where: pod
-- expect: load
-- says: unknown global 'require'
require('os')
