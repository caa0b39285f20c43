-- row: 60
-- where: fetch
-- expect: error
-- says: argument 4 '../../secrets/x' is no name of an object
return { a = fence.get('v1', 'pods', 'shop', '../../secrets/x') }
