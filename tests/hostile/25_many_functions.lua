-- row: 25
-- where: pod
-- expect: ok load memory
--@ repeat 150 local function f() local a,b,c,d,e,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z = type,next,pairs,type,next,pairs,type,next,pairs,type,next,pairs,type,next,pairs,type,next,pairs,type,next,pairs,type,next,pairs,type 
--@ repeat 150 end 
return fence.skip('alive')
