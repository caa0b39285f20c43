-- row: 60
-- where: pod
-- expect: error
-- says: requests are made inside of fetch(), node_fetch() and source.plan()
return fence.http('storage', '/v2')
