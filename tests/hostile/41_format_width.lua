-- row: 41
-- where: pod
-- expect: error
-- says: more than two digits
string.format('%99999999d', 1)
