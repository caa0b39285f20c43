-- row: 16
-- where: pod
-- expect: load
-- says: cannot set 'len' of 'string'
string.len = nil
