-- row: 23
-- where: file
-- expect: load
-- says: C stack overflow
return
--@ repeat 20000 - 
1
