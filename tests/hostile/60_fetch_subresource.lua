-- row: 60
-- where: fetch
-- expect: error
-- says: argument 2 'pods/log' is no resource
return { a = fence.get('v1', 'pods/log', 'shop', 'web-0') }
