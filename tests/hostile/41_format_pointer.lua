-- row: 41
-- where: pod
-- expect: error
-- says: unknown directive '%p'
string.format('%p', {})
