-- row: 23
-- where: file
-- expect: load
-- says: C stack overflow
return
--@ repeat 2000 function() return 
