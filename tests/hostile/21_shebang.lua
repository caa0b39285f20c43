-- row: 21
-- where: file
-- expect: load
-- says: unexpected symbol near '#'
#!/usr/bin/lua
return 1
