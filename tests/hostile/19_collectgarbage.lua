-- row: 19
-- where: pod
-- expect: load
-- says: unknown global 'collectgarbage'
collectgarbage('stop')
