-- row: 21
-- where: file
-- expect: load
-- says: unexpected symbol near
--@ hex efbbbf
return 1
