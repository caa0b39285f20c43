-- row: 23
-- where: file
-- expect: load
-- says: C stack overflow
return
--@ repeat 5000 (
1
--@ repeat 5000 )
